"""Ranks the documents of a retrieval data set for each query, without the query itself where it is a document too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from opencse.evaluation.embedding import Embedded
from opencse.evaluation.retrieval.data import RetrievalTask
from opencse.evaluation.retrieval.rankers import ByVectors, Ranker


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
