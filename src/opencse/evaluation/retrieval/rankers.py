"""Ways to rank the documents of a retrieval task: by vectors, by keywords (BM25), or by both as an index does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

from opencse.evaluation.embedding import Embedded, Split
from opencse.evaluation.retrieval.data import RetrievalTask
from opencse.modules.similarity import Similarity
from opencse.ranking import nearest_prepared, nearest_rows
from opencse.search.hybrid import DEPTH, RowsInMemory, WordScores, candidates_of
from opencse.search.keyword_index import KeywordIndex, best_rows
from opencse.search.stems import AUTO, language_named, language_of

T = TypeVar("T")
_SAMPLE = 2_000
"""Documents from which the language is detected, as for an index."""


class Ranker(ABC):
    """Ranks the documents of a task for each of its queries."""

    def texts(self, task: RetrievalTask) -> Sequence[str]:
        """The texts whose vectors `first` reads, next to the queries' vectors; empty: it reads no vectors."""
        del task
        return ()

    def compares_by(self, similarity: Similarity) -> Similarity | None:
        """The function that compares vectors, which is ``similarity`` for a model; None: none are compared."""
        return similarity

    @abstractmethod
    def name(self, similarity: Similarity) -> str:
        """The scores that rank, where vectors are compared by ``similarity``."""

    @abstractmethod
    def first(self, task: RetrievalTask, embedded: Embedded, k: int) -> Iterator[list[int]]:
        """Yields the positions of the first k documents for each query, best first; fewer where fewer match."""


@dataclass(frozen=True)
class ByVectors(Ranker):
    """Ranks by the similarity of vectors.

    Attributes:
        similarity: the function that compares them; None: the model's.
    """

    similarity: Similarity | None = None

    def texts(self, task: RetrievalTask) -> Sequence[str]:
        """See `Ranker`."""
        return task.documents

    def compares_by(self, similarity: Similarity) -> Similarity:
        """See `Ranker`."""
        return self.similarity or similarity

    def name(self, similarity: Similarity) -> str:
        """See `Ranker`."""
        return self.compares_by(similarity).value

    def first(self, task: RetrievalTask, embedded: Embedded, k: int) -> Iterator[list[int]]:
        """See `Ranker`."""
        similarity = self.compares_by(embedded.similarity)
        yield from nearest_rows(embedded.queries.of(task.queries), embedded.of(task.documents), k, similarity)[
            0
        ].tolist()


@dataclass(frozen=True)
class TaskKeywords:
    """The keyword indexes of tasks, each counted once.

    Attributes:
        language: whose stems are compared, as in `opencse.search.building.BuildSettings`.
    """

    language: str = AUTO
    _indexes: dict[str, KeywordIndex] = field(default_factory=dict)

    def of(self, task: RetrievalTask) -> KeywordIndex:
        """The keyword index of the documents of ``task``."""
        if task.name not in self._indexes:
            some = task.documents[:: max(1, -(-len(task.documents) // _SAMPLE))]
            language = language_of(some) if self.language == AUTO else language_named(self.language)
            self._indexes[task.name] = KeywordIndex.of(task.documents, language)
        return self._indexes[task.name]


@dataclass(frozen=True)
class ByKeywords(Ranker):
    """Ranks by BM25, with the words and stems of an index's keyword search; documents without a word are not ranked."""

    keywords: TaskKeywords = field(default_factory=TaskKeywords)

    def compares_by(self, similarity: Similarity) -> None:
        """See `Ranker`."""

    def name(self, similarity: Similarity) -> str:
        """See `Ranker`."""
        del similarity
        return "BM25"

    def first(self, task: RetrievalTask, embedded: Embedded, k: int) -> Iterator[list[int]]:
        """See `Ranker`."""
        del embedded
        words = self.keywords.of(task)
        for query in task.queries:
            yield best_rows(words.scores(query), k).tolist()


@dataclass(frozen=True)
class ByBoth(Ranker):
    """Ranks by vectors and BM25 as ``opencse index query --hybrid -k K`` does, from the same passages.

    Attributes:
        weight: of the vectors, in [0, 1].
        keywords: of the tasks.
        split: into passages that the model reads completely; None: documents are not split.
    """

    weight: float
    keywords: TaskKeywords = field(default_factory=TaskKeywords)
    split: Split | None = None
    _passages: dict[str, list[list[str]]] = field(default_factory=dict)

    def passages(self, task: RetrievalTask) -> list[list[str]]:
        """The passages of each document of ``task``, split once."""
        if task.name not in self._passages:
            texts = task.documents
            self._passages[task.name] = [[text] for text in texts] if self.split is None else self.split(texts)
        return self._passages[task.name]

    def texts(self, task: RetrievalTask) -> Sequence[str]:
        """See `Ranker`."""
        return list(chain.from_iterable(self.passages(task)))

    def rows(self, task: RetrievalTask, embedded: Embedded) -> RowsInMemory:
        """The passages of all documents of ``task`` with their vectors."""
        vectors = embedded.similarity.prepared(embedded.of(self.texts(task)))
        return RowsInMemory(vectors, embedded.similarity, [len(one) for one in self.passages(task)])

    def name(self, similarity: Similarity) -> str:
        """See `Ranker`."""
        return f"{self.weight:g} {similarity.value} + {1 - self.weight:g} BM25"

    def first(self, task: RetrievalTask, embedded: Embedded, k: int) -> Iterator[list[int]]:
        """See `Ranker`."""
        words, similarity, depth = self.keywords.of(task), embedded.similarity, max(DEPTH, 4 * k)
        rows = self.rows(task, embedded)
        queries = similarity.prepared(embedded.queries.of(task.queries))
        nearest, _ = nearest_prepared(queries, rows.vectors, depth, similarity=similarity)
        for text, query, near in zip(task.queries, queries, nearest, strict=True):
            ranked, _ = candidates_of(query, near, WordScores.of(words, text), rows, depth).ranking(self.weight)
            yield ranked[:k].tolist()


@dataclass(frozen=True)
class Ranked:
    """One query's ranking.

    Attributes:
        levels: relevance of the ranked documents, the nearest first; 0 for documents without a judgement.
        judged: relevance of all judged documents, ranked or not.
        is_judged: whether each of the ranked documents has a judgement.
    """

    levels: list[int]
    judged: list[int]
    is_judged: list[bool] = field(default_factory=list)


def rankings(
    task: RetrievalTask, embedded: Embedded, k: int, left_out: Sequence[int | None], ranker: Ranker | None = None
) -> Iterator[Ranked]:
    """Ranks the first k documents for each query of ``task``, in the queries' order; by vectors without a ranker.

    Args:
        task: documents, queries and judgements.
        embedded: their vectors.
        k: documents to rank.
        left_out: a document that is not ranked for each query; see `RetrievalTask.left_out`.
        ranker: ranks them.
    """
    # One more than needed: the document that is left out may be among them.
    positions = (ranker or ByVectors()).first(task, embedded, k + 1)
    missing = task.missing or [[]] * len(task.queries)
    for ranked, without, levels, absent in zip(positions, left_out, task.judged, missing, strict=True):
        others = [position for position in ranked if position != without][:k]
        is_judged = [position in levels for position in others]
        yield Ranked([levels.get(position, 0) for position in others], [*levels.values(), *absent], is_judged)
