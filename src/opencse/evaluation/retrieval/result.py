"""What a retrieval evaluation found, and its table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import FiniteFloat

from opencse.evaluation.ranking import Similarity
from opencse.evaluation.record import EvaluationRecord
from opencse.settings import Settings

if TYPE_CHECKING:
    from rich.table import Table

ABSENT = "-"


class RetrievalScore(Settings):
    """Measures of one data set x 100, each the mean over its queries; see ``opencse.evaluation.measures``.

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

    def measures(self) -> dict[str, float]:
        """The measures by name, without the counts."""
        return {
            "ndcg_at_10": self.ndcg_at_10,
            "mrr_at_10": self.mrr_at_10,
            "map_at_10": self.map_at_10,
            "recall_at_1": self.recall_at_1,
            "recall_at_10": self.recall_at_10,
            "recall_at_100": self.recall_at_100,
        }


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
    from rich.table import Table
    from rich.text import Text

    kinds = sorted({f"{result.split}, {result.similarity}" for result in results.values()})
    table = Table(title=f"Retrieval ({'; '.join(kinds)}), x 100")
    for header in ("Model", "Data set"):
        table.add_column(header)
    for header in ("Queries", "Documents", "nDCG@10", "MRR@10", "MAP@10", "Recall@1", "Recall@10", "Recall@100"):
        table.add_column(header, justify="right")
    for label, result in results.items():
        for name, score in result.retrieval.items():
            cells = [f"{score.queries:,}", f"{score.documents:,}", *(f"{x:.2f}" for x in score.measures().values())]
            table.add_row(Text(label), Text(name), *cells)
        if len(result.retrieval) > 1:
            table.add_row(Text(label), "average", ABSENT, ABSENT, f"{result.average:.2f}", *[ABSENT] * 5)
        table.add_section()
    return table
