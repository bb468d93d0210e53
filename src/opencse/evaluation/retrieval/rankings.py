"""The documents nearest to each query as relevance levels, without the query itself where it is a document too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from opencse.evaluation.embedding import Embedded
from opencse.evaluation.retrieval.data import RetrievalTask
from opencse.modules.similarity import Similarity
from opencse.ranking import nearest_rows


@dataclass(frozen=True)
class Ranked:
    """One query's ranking.

    Attributes:
        found: relevance of the ranked documents, the nearest first; 0 for those not judged.
        judged: relevance of all judged documents, ranked or not.
    """

    found: list[int]
    judged: list[int]


@dataclass(frozen=True)
class OwnDocuments:
    """Which queries have a document of their own id, and whether that is left out of their ranking.

    In collections whose queries are documents (ArguAna, Quora) the query would find itself first, and BEIR's code
    removes every such document. Where queries and documents are merely both numbered from 0, that removes answers. So
    a document with the query's own id is left out only where the judgements do not call it relevant to that query.

    Attributes:
        left_out: by query, the position of the document that is left out; None for none.
        relevant: queries whose own document is judged relevant, and so ranked.
    """

    left_out: list[int | None]
    relevant: int

    @classmethod
    def of(cls, task: RetrievalTask, keep: bool = False) -> OwnDocuments:
        """Those of a task; with ``keep`` none is left out."""
        place = {name: position for position, name in enumerate(task.document_ids)}
        own = [place.get(query) for query in task.query_ids]
        answers = [
            position is not None and levels.get(position, 0) > 0
            for position, levels in zip(own, task.judged, strict=True)
        ]
        left_out = [None if keep or answer else position for position, answer in zip(own, answers, strict=True)]
        return cls(left_out, sum(answers))

    @property
    def count(self) -> int:
        """How many documents are left out, each for one query."""
        return sum(position is not None for position in self.left_out)

    def note(self) -> str:
        """What was done, for the user; empty where no query has a document of its own id."""
        told = []
        if self.count:
            told.append(
                f"{self.count:,} documents with their query's own id left out (--keep-identical-ids keeps them)"
            )
        if self.relevant:
            told.append(f"{self.relevant:,} documents with their query's own id ranked, since they are judged relevant")
        return "; ".join(told)


def rankings(
    task: RetrievalTask, embedded: Embedded, k: int, own: OwnDocuments, similarity: Similarity | None = None
) -> Iterator[Ranked]:
    """The first k documents for each query of ``task``, in the queries' order."""
    # One more than needed: the document that is left out may be among them.
    positions, _ = nearest_rows(
        embedded.queries.of(task.queries), embedded.of(task.documents), k + 1, similarity or embedded.similarity
    )
    missing = task.missing or [[]] * len(task.queries)
    for ranked, without, levels, absent in zip(positions.tolist(), own.left_out, task.judged, missing, strict=True):
        others = [position for position in ranked if position != without][:k]
        yield Ranked([levels.get(position, 0) for position in others], [*levels.values(), *absent])
