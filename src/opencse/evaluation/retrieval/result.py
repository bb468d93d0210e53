"""What a retrieval evaluation found, and its table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import FiniteFloat

from opencse.evaluation.record import EvaluationRecord
from opencse.evaluation.table import ABSENT, cell, table_of
from opencse.modules.similarity import Similarity
from opencse.settings import Settings

if TYPE_CHECKING:
    from rich.table import Table


class RetrievalScore(Settings):
    """Measures of one data set x 100, each the mean over its queries; see ``opencse.ranking``.

    Attributes:
        ndcg_at_10: what BEIR and MTEB report.
        mrr_at_10: of the first relevant document.
        map_at_10: trec_eval's ``map_cut_10``.
        recall_at_1: so are 10 and 100.
        recall_at_10: see ``recall_at_1``.
        recall_at_100: see ``recall_at_1``.
        queries: queries in the means; those with a relevant document.
        without_relevant: judged queries left out, since no document is relevant to them.
        documents: documents searched.
        identical_ids: documents with the id of a query that were left out of that query's ranking.
    """

    ndcg_at_10: FiniteFloat
    mrr_at_10: FiniteFloat
    map_at_10: FiniteFloat
    recall_at_1: FiniteFloat
    recall_at_10: FiniteFloat
    recall_at_100: FiniteFloat
    queries: int
    without_relevant: int
    documents: int
    identical_ids: int = 0
    similarity: Similarity = Similarity.COSINE

    def measures(self) -> dict[str, float]:
        """The measures by name, without the counts."""
        return self.model_dump(exclude={"queries", "without_relevant", "documents", "identical_ids", "similarity"})


class RetrievalResult(EvaluationRecord):
    """A retrieval evaluation: ``retrieval.<data set>.ndcg_at_10`` and so on.

    Attributes:
        similarity: what documents were ranked by.
        split: which judgements were used.
        retrieval: scores by data set.
        average: plain mean of nDCG@10 over these data sets; compares only over the same ones.
    """

    similarity: Similarity
    split: str
    retrieval: dict[str, RetrievalScore]
    average: FiniteFloat

    def values(self) -> dict[str, float]:
        """``retrieval.<data set>.<measure>`` and ``retrieval.average``, x 100."""
        flat = {
            f"retrieval.{name}.{measure}": value
            for name, score in self.retrieval.items()
            for measure, value in score.measures().items()
        }
        return {**flat, "retrieval.average": self.average}


def retrieval_table(results: Mapping[str, RetrievalResult]) -> Table:
    """A row a model and data set, measures x 100 with two decimals; where there are several, a row with the average.

    Args:
        results: by label, in the order to show.
    """
    kinds = sorted({f"{result.split}, {result.similarity}" for result in results.values()})
    rows: list[list[str]] = []
    notes: dict[str, None] = {}
    for label, result in results.items():
        for name, score in result.retrieval.items():
            rows.append([label, name, *(cell(value) for value in score.measures().values())])
            own = f"; {score.identical_ids:,} with their query's own id left out" if score.identical_ids else ""
            notes[f"{name}: {score.queries:,} queries, {score.documents:,} documents{own}"] = None
        if len(result.retrieval) > 1:
            rows.append([label, "average", cell(result.average), *[ABSENT] * 5])
    measured = ("nDCG@10", "MRR@10", "MAP@10", "R@1", "R@10", "R@100")
    title = f"Retrieval ({'; '.join(kinds)}), x 100; R is recall"
    return table_of(title, ["Model", "Data set"], measured, rows, notes, grouped=True)
