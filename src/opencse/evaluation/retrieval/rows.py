"""Rows of a table of retrieval scores: models, BM25, hybrid search, a second stage, and what an index delivers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from opencse.errors import UserError
from opencse.evaluation.embedding import Embedded, EmbeddingModel, Searching, remembering
from opencse.evaluation.record import EvaluationRecord
from opencse.evaluation.retrieval.data import RetrievalData, RetrievalTask
from opencse.evaluation.retrieval.rankers import ByBoth, ByKeywords, Ranker, TaskKeywords
from opencse.evaluation.retrieval.score import MAIN, Retrieval, compared_with
from opencse.modules.prompts import Role
from opencse.modules.similarity import HybridWeight, Similarity
from opencse.numerals import number_of
from opencse.progress import Counted, Progress
from opencse.ranking import PreparedVectors
from opencse.reranking.second_stage import SecondStage
from opencse.search.hybrid import weight_of_model
from opencse.search.index import Index
from opencse.search.rows import exported_id, require_same_texts
from opencse.search.snapshots import Snapshot
from opencse.search.stems import AUTO


@dataclass(frozen=True)
class Reranked(Ranker):
    """Ranks by a first ranker, and the first documents of its ranking again by a cross-encoder.

    A document that is left out (see `RetrievalTask.left_out`) is not counted among the first.

    Attributes:
        first_stage: ranks all documents.
        stage: the cross-encoder, and the number of documents that it ranks again.
        keep_identical_ids: see `Retrieval`.
        progress: shows the progress.
    """

    first_stage: Ranker
    stage: SecondStage
    keep_identical_ids: bool
    progress: Progress

    def texts(self, task: RetrievalTask) -> Sequence[str]:
        """See `Ranker`."""
        return self.first_stage.texts(task)

    def compares_by(self, similarity: Similarity) -> Similarity | None:
        """See `Ranker`."""
        return self.first_stage.compares_by(similarity)

    def name(self, similarity: Similarity) -> str:
        """See `Ranker`."""
        return f"{self.first_stage.name(similarity)}, first {self.stage.depth} by {_short(self.stage.model.name)}"

    def first(self, task: RetrievalTask, embedded: Embedded, k: int) -> Iterator[list[int]]:
        """See `Ranker`."""
        left_out = task.left_out(self.keep_identical_ids)
        rankings = [
            [position for position in ranked if position != without]
            for ranked, without in zip(
                self.first_stage.first(task, embedded, max(k, self.stage.depth + 1)), left_out, strict=True
            )
        ]
        texts = [[task.documents[position] for position in ranked[: self.stage.depth]] for ranked in rankings]
        orders = self.stage.reranked(task.queries, texts, Counted(self.progress, f"{task.name}: re-ranking"))
        for ranked, order in zip(rankings, orders, strict=True):
            yield [*(ranked[position] for position, _ in order), *ranked[self.stage.depth :]][:k]


def _short(name: str) -> str:
    """The last part of a folder or Hub id."""
    return Path(name).name or name


BM25 = "BM25"


@dataclass(frozen=True)
class KeywordRows:
    """Which rows are added to a table of retrieval scores.

    Attributes:
        hybrid: also a row of vectors and BM25 together for each model.
        weight: of the vectors in it; None: the weight saved with the model, or else the weight by `weight_of_model`.
        language: whose word stems BM25 compares; see `opencse.search.building.BuildSettings`.
    """

    hybrid: bool = False
    weight: float | None = None
    language: str = AUTO

    def weight_of(self, model: EmbeddingModel, language: str | None) -> HybridWeight:
        """The weight of a model's vectors on documents of a language."""
        if self.weight is not None:
            return HybridWeight(self.weight, "as requested")
        searching = model.searching or Searching(model.encode, model.encode)
        saved = model.hybrid_weight
        return saved or weight_of_model(searching.queries, searching.documents, model.similarity, language)


_COMPARED = 1_000
"""Relevant documents whose texts are compared with the texts of the index, at most."""
_NO_DOCUMENT = -1
"""Position of a document of the index that the data set lacks."""


@dataclass(frozen=True)
class SearchedIndex:
    """An index that is scored like a model.

    Attributes:
        name: in tables and results.
        index: with the encoder of its queries.
    """

    name: str
    index: Index
    _queries: dict[str, PreparedVectors] = field(default_factory=dict)

    def queries_of(self, task: RetrievalTask) -> PreparedVectors:
        """(n, d) vectors of the queries of ``task``, encoded once."""
        if task.name not in self._queries:
            self._queries[task.name] = self.index.encode(task.queries, Role.QUERY)
        return self._queries[task.name]

    def check(self, data: RetrievalData) -> dict[str, Any]:
        """Compares the documents of the index with the documents of data sets, by id and by text.

        Returns:
            The index for a record: ``model`` that made its vectors, ``kind``, ``precision``, ``dimensions`` (how many
            of the first ones of the model's vectors it keeps; None: all), ``documents``, ``passages``, ``max_length``
            (tokens of the longest passage; None: texts are not split), ``overlap``, ``language`` of the word stems; by
            data set ``absent``, how many of its documents with text the index lacks, which count as not found, and
            ``others``, how many documents of the index it lacks, which count as not relevant.

        Raises:
            UserError: for a data set of which no relevant document is in the index, or most have another text there.
        """
        with self.index.snapshot() as snapshot:
            ids = {_data_id(name): name for name in snapshot.document_ids()}
            absent, others = {}, {}
            for name, task in data.tasks.items():
                self._require_same(snapshot, ids, task)
                positions = task.positions
                there = {positions[key] for key in ids if key in positions}
                absent[name] = sum(row not in there for row, text in enumerate(task.documents) if text)
                others[name] = len(ids.keys() - positions.keys())
        info = self.index.info()
        copied = ("model", "kind", "precision", "documents", "max_length", "overlap", "language")
        return {name: getattr(info, name) for name in copied} | {
            "passages": info.rows,
            "dimensions": None if info.encoded_dimension is None else info.dimension,
            "absent": absent,
            "others": others,
        }

    def _require_same(self, snapshot: Snapshot, ids: dict[str, str], task: RetrievalTask) -> None:
        relevant = {position for levels in task.judged for position, level in levels.items() if level > 0}
        known = [name for name, position in task.positions.items() if position in relevant and name in ids]
        if not known:
            index_id, data_id = next(iter(ids), "")[:40], task.document_ids[min(relevant, default=0)][:40]
            raise UserError(
                f"{self.name}: has none of the relevant documents of {task.name} (ids there are like {data_id!r}, in "
                f"the index like {index_id!r}); build it from the data's corpus.jsonl, or from documents with the same "
                "ids (opencse index build --id)"
            )
        every = max(1, -(-len(known) // _COMPARED))
        compared = {ids[name]: task.documents[task.positions[name]] for name in known[::every]}
        rows = ((row.id, row.text) for row in snapshot.rows_with_ids(list(compared)))
        require_same_texts(self.name, task.name, compared, rows)


@dataclass(frozen=True)
class ByIndex(Ranker):
    """Ranks documents as ``opencse index query INDEX -k K`` does.

    Attributes:
        searched: the index.
        by: what ranks: the vectors alone, the keywords alone, or both as ``--hybrid`` does.
        weight: of the vectors in a hybrid search.
    """

    searched: SearchedIndex
    by: Literal["vectors", "keywords", "both"] = "vectors"
    weight: float = 0.0

    def compares_by(self, similarity: Similarity) -> Similarity | None:
        """See `Ranker`."""
        del similarity
        return None if self.by == "keywords" else Similarity(self.searched.index.info().similarity)

    def name(self, similarity: Similarity) -> str:
        """See `Ranker`."""
        info = self.searched.index.info()
        compared = info.similarity if info.kind == "flat" else f"{info.similarity} ({info.kind})"
        of = " of passages" if info.rows > info.documents else ""
        if self.by == "keywords":
            return "BM25"
        both = f"{self.weight:g} {compared}{of} + {1 - self.weight:g} BM25"
        return f"{compared}{of}" if self.by == "vectors" else both

    def first(self, task: RetrievalTask, embedded: Embedded, k: int) -> Iterator[list[int]]:
        """See `Ranker`; a document that the task lacks has the position -1."""
        del embedded
        position_of = task.positions
        hybrid = self.by != "vectors"
        result = self.searched.index.search(
            task.queries,
            k,
            hybrid=hybrid,
            hybrid_weight=self.weight if hybrid else None,
            vectors=self.searched.queries_of(task),
        )
        for hits in result:
            ranked = (hit for hit in hits if self.by != "keywords" or hit.score > 0)
            ids = (_data_id(name) for hit in ranked for name in (hit.id, *hit.copies))
            first: dict[object, int] = {}  # of a document that the task lacks by its id
            for name in ids:
                first.setdefault(position_of.get(name, name), position_of.get(name, _NO_DOCUMENT))
            yield [*first.values()][:k]


@dataclass(frozen=True)
class Rows:
    """Makes the rows of a table of retrieval scores: of models and indexes, and what is requested in addition.

    Attributes:
        suite: how tasks are scored.
        data: the tasks.
        progress: shows the progress.
        keywords: rows of BM25 alone and, on request, together with vectors; None: no such rows.
        stage: a cross-encoder that ranks the first documents of each row again, in one more row; None: no such rows.
    """

    suite: Retrieval
    data: RetrievalData
    progress: Progress
    keywords: KeywordRows | None = None
    stage: SecondStage | None = None

    def of(self, models: Iterable[EmbeddingModel | SearchedIndex]) -> dict[str, EvaluationRecord]:
        """Scores one model or index after another; a text is encoded once for all rows of a model.

        Returns:
            The records by label: ``BM25``, ``MODEL``, ``MODEL + BM25`` (of an index ``INDEX, BM25``, ``INDEX``, ``INDEX
            + BM25``), and each of a model again with ``+ CROSS-ENCODER``. A row of vectors is compared with BM25, a row
            of both with the better of its two parts on that data set, a row with a second stage with the one without
            it.

        Raises:
            UserError: see `SearchedIndex.check`.
        """
        rows: dict[str, EvaluationRecord] = {}
        words = TaskKeywords(AUTO if self.keywords is None else self.keywords.language)
        for model in models:
            if isinstance(model, SearchedIndex):
                with model.index.snapshot():
                    self._of_index(model, rows)
            else:
                self._of_model(model, words, rows)
        return rows

    def _of_model(self, model: EmbeddingModel, words: TaskKeywords, rows: dict[str, EvaluationRecord]) -> None:
        hybrid = self.keywords is not None and self.keywords.hybrid
        opened = remembering(model) if hybrid or self.stage is not None else model
        if self.keywords is not None and BM25 not in rows:
            self._add(rows, BM25, ByKeywords(words), _without_vectors(BM25), {"model": None})
        self._add(rows, model.name, self.suite.ranked, opened, than=[BM25] if BM25 in rows else [])
        if self.keywords is not None and hybrid:
            languages = {words.of(task).language for task in self.data.tasks.values()}
            weight = self.keywords.weight_of(opened, languages.pop() if len(languages) == 1 else None)
            self.progress.say(f"{model.name} + BM25: weight of the vectors {weight}")
            ranker = ByBoth(weight.value, words, model.split)
            self._add(rows, f"{model.name} + BM25", ranker, opened, than=[BM25, model.name])

    def _of_index(self, searched: SearchedIndex, rows: dict[str, EvaluationRecord]) -> None:
        name, index = searched.name, searched.index
        described = searched.check(self.data)
        self.progress.say(_described(name, described))
        for task in self.data.tasks:
            absent, others = described["absent"][task], described["others"][task]
            if absent or others:
                self.progress.say(
                    f"{name}: lacks {number_of(absent, 'document')} of {task}, which count as not found, "
                    f"and has {others:,} that {task} lacks, which count as not relevant"
                )
        model = _without_vectors(name, index.info().pooling)
        update = {"settings": self.suite.settings({}) | {"index": described}}
        words = f"{name}, BM25"
        if self.keywords is not None:
            self._add(rows, words, ByIndex(searched, "keywords"), model, update)
        self._add(rows, name, ByIndex(searched), model, update, than=[words] if words in rows else [])
        if self.keywords is not None and self.keywords.hybrid:
            given = self.keywords.weight
            weight = index.hybrid_weight if given is None else HybridWeight(given, "as requested")
            self.progress.say(f"{name} + BM25: weight of the vectors {weight}")
            self._add(
                rows, f"{name} + BM25", ByIndex(searched, "both", weight.value), model, update, than=[words, name]
            )

    def _add(
        self,
        rows: dict[str, EvaluationRecord],
        label: str,
        ranker: Ranker,
        model: EmbeddingModel,
        update: Mapping[str, Any] | None = None,
        than: Sequence[str] = (),
    ) -> None:
        """Adds a row, compared on each data set with the best of other rows, and one with the second stage."""

        def scored(ranker: Ranker, than: Sequence[str]) -> EvaluationRecord:
            record = replace(self.suite, ranker=ranker).evaluate(model, self.data, self.progress.say)
            best = {task: max(than, key=lambda one: rows[one][task, MAIN].value) for task in self.data.tasks if than}
            others = {task: (one, rows[one]) for task, one in best.items()}
            return compared_with(record.model_copy(update=update), others)

        rows[label] = scored(ranker, than)
        if self.stage is not None:
            second = Reranked(ranker, self.stage, self.suite.keep_identical_ids, self.progress)
            rows[f"{label} + {_short(self.stage.model.name)}"] = scored(second, [label])


def _without_vectors(name: str, pooling: str | None = None) -> EmbeddingModel:
    return EmbeddingModel(name, lambda texts: np.empty((len(texts), 0)), pooling=pooling)


def _described(name: str, index: dict[str, Any]) -> str:
    documents, passages, dimensions = index["documents"], index["passages"], index["dimensions"]
    split = "" if passages == documents else f" in {number_of(passages, 'passage')}"
    first = "" if dimensions is None else f", the first {dimensions} dimensions"
    return (
        f"{name}: index of {number_of(documents, 'document')}{split} by {index['model'] or 'a loaded model'}, "
        f"{index['kind']}, {index['precision']}{first}"
    )


def _data_id(name: str) -> str:
    """The id of a document of an index as data sets have it: without white space around it."""
    return exported_id(name).strip()


def compared_with_first(records: Mapping[str, EvaluationRecord]) -> dict[str, EvaluationRecord]:
    """The records with the differences of each model's rows from the rows of the first model, query by query.

    Args:
        records: of one suite and the same data, by label: a model's name, and what is added to its row. Retrieval
            results alone are compared.
    """
    compared: dict[str, EvaluationRecord] = {}
    firsts: dict[str, tuple[str, EvaluationRecord]] = {}
    for label, record in records.items():
        compared[label] = record
        if record.scores[0].suite == Retrieval.name and record.model:
            first = firsts.setdefault(label.removeprefix(record.model), (label, record))
            if first[0] != label:
                compared[label] = compared_with(record, dict.fromkeys(record.tasks, first))
    return compared
