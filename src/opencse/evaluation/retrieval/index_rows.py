"""Scores what an index delivers: searches of its own passages and vectors, in place of a model's whole documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from opencse.errors import UserError
from opencse.evaluation.embedding import Embedded, EmbeddingModel
from opencse.evaluation.retrieval.data import RetrievalData, RetrievalTask
from opencse.evaluation.retrieval.keyword_rows import KeywordRows, better_row
from opencse.evaluation.retrieval.score import EvaluatedIndex, Retrieval, RetrievalResult
from opencse.modules.prompts import Role
from opencse.modules.similarity import HybridWeight, Similarity
from opencse.numerals import number_of
from opencse.progress import Say
from opencse.ranking import PreparedVectors
from opencse.search.index import Index
from opencse.search.rows import exported_id, require_same_texts
from opencse.search.snapshots import Snapshot

_COMPARED = 1_000
"""Relevant documents whose texts are compared with those of the index, at most."""
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

    def check(self, data: RetrievalData) -> EvaluatedIndex:
        """Compares the documents of the index with those of data sets, by id and by text.

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
        return EvaluatedIndex(
            model=info.model,
            kind=info.kind,
            precision=info.precision,
            dimensions=None if info.encoded_dimension is None else info.dimension,
            documents=info.documents,
            passages=info.rows,
            max_length=info.max_length,
            overlap=info.overlap,
            language=info.language,
            absent=absent,
            others=others,
        )

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
class ByIndex:
    """Ranks documents as ``opencse index query INDEX -k K`` does.

    Attributes:
        searched: the index.
        by: what ranks: the vectors alone, the keywords alone, or both as ``--hybrid`` does.
        weight: of the vectors in a hybrid search.
    """

    searched: SearchedIndex
    by: Literal["vectors", "keywords", "both"] = "vectors"
    weight: float = 0.0

    def texts(self, task: RetrievalTask) -> Sequence[str]:
        """See `Ranker`; an index has vectors of its own."""
        del task
        return ()

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


def rows_of_index(
    searched: SearchedIndex, suite: Retrieval, data: RetrievalData, extra: KeywordRows | None, progress: Say
) -> dict[str, RetrievalResult]:
    """Scores the searches of an index: by its vectors, and on request by keywords and by both.

    Args:
        searched: the index.
        suite: how tasks are scored.
        data: the tasks, whose documents the index holds.
        extra: the rows to add: ``INDEX, BM25``, and ``INDEX + BM25`` with the weight of the index unless one is given.
        progress: called with one line at each step.

    Returns:
        The records by label. A row of keywords or of both is compared as `rows_with_keywords` compares them.

    Raises:
        UserError: see `SearchedIndex.check`.
    """
    name, index = searched.name, searched.index
    with index.snapshot():
        record = searched.check(data)
        progress(_described(name, record))
        for task in data.tasks:
            if record.absent[task] or record.others[task]:
                progress(
                    f"{name}: lacks {number_of(record.absent[task], 'document')} of {task}, which count as not found, "
                    f"and has {record.others[task]:,} that {task} lacks, which count as not relevant"
                )

        def row(ranker: ByIndex) -> RetrievalResult:
            model = EmbeddingModel(name, lambda texts: np.empty((len(texts), 0)), pooling=index.info().pooling)
            scored: RetrievalResult = replace(suite, ranker=ranker).evaluate(model, data, progress).record
            return scored.model_copy(update={"index": record})

        vectors = row(ByIndex(searched))
        if extra is None:
            return {name: vectors}
        words_label = f"{name}, BM25"
        words = row(ByIndex(searched, "keywords"))
        rows = {words_label: words, name: vectors.compared_with(dict.fromkeys(data.tasks, (words_label, words)))}
        if extra.hybrid:
            weight = index.hybrid_weight if extra.weight is None else HybridWeight(extra.weight, "as requested")
            progress(f"{name} + BM25: weight of the vectors {weight}")
            both = row(ByIndex(searched, "both", weight.value))
            better = {task: better_row(task, (words_label, words), (name, vectors)) for task in data.tasks}
            rows[f"{name} + BM25"] = both.compared_with(better)
        return rows


def _described(name: str, record: EvaluatedIndex) -> str:
    passages = "" if record.passages == record.documents else f" in {number_of(record.passages, 'passage')}"
    dimensions = "" if record.dimensions is None else f", the first {record.dimensions} dimensions"
    return (
        f"{name}: index of {number_of(record.documents, 'document')}{passages} by {record.model or 'a loaded model'}, "
        f"{record.kind}, {record.precision}{dimensions}"
    )


def _data_id(name: str) -> str:
    """The id of a document of an index as data sets have it: without white space around it."""
    return exported_id(name).strip()
