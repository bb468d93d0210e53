"""Ranks the documents of a retrieval data set for each query, without the query itself where it is a document too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from opencse.evaluation.embedding import Embedded
from opencse.evaluation.retrieval.data import RetrievalTask
from opencse.evaluation.retrieval.rankers import ByVectors, Ranker
from opencse.numerals import number_of


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


@dataclass(frozen=True)
class OwnDocuments:
    """The documents that have the id of a query, and whether they are left out of its ranking.

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
        """Finds the documents with the id of a query of ``task``; with ``keep`` none is left out."""
        position_of = {name: position for position, name in enumerate(task.document_ids)}
        own_documents = [position_of.get(query) for query in task.query_ids]
        answers = [
            position is not None and levels.get(position, 0) > 0
            for position, levels in zip(own_documents, task.judged, strict=True)
        ]
        left_out = [
            None if keep or answer else position for position, answer in zip(own_documents, answers, strict=True)
        ]
        return cls(left_out, sum(answers))

    @property
    def count(self) -> int:
        """The number of documents that are left out, each for one query."""
        return sum(position is not None for position in self.left_out)

    def note(self) -> str:
        """Describes what was left out; empty where no query has a document of its own id."""
        notes = []
        if self.count:
            notes.append(
                f"{number_of(self.count, 'document')} with their query's own id left out (--keep-identical-ids keeps "
                "them)"
            )
        if self.relevant:
            notes.append(
                f"{number_of(self.relevant, 'document')} with their query's own id ranked, since they are judged "
                "relevant"
            )
        return "; ".join(notes)


def rankings(
    task: RetrievalTask, embedded: Embedded, k: int, own_documents: OwnDocuments, ranker: Ranker | None = None
) -> Iterator[Ranked]:
    """Ranks the first k documents for each query of ``task``, in the queries' order; by vectors without a ranker."""
    # One more than needed: the document that is left out may be among them.
    positions = (ranker or ByVectors()).first(task, embedded, k + 1)
    missing = task.missing or [[]] * len(task.queries)
    for ranked, without, levels, absent in zip(positions, own_documents.left_out, task.judged, missing, strict=True):
        others = [position for position in ranked if position != without][:k]
        is_judged = [position in levels for position in others]
        yield Ranked([levels.get(position, 0) for position in others], [*levels.values(), *absent], is_judged)
