"""Retrieval: do the documents nearest to a query answer it?

BEIR's protocol (Thakur et al. 2021): every document is ranked by its vector's similarity to the query's, title and
text of a document are one text, a document with the query's own id is left out, and trec_eval's measures are
averaged over queries. Differences: equal similarities stand in corpus order (trec_eval: by id, descending), and
queries without a relevant document are left out and counted (BEIR's code counts them as 0).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from opencse.evaluation.embedding import Embedded
from opencse.evaluation.measures import average_precision, ndcg, recall, reciprocal_rank
from opencse.evaluation.ranking import Similarity, nearest_rows
from opencse.evaluation.retrieval.data import RetrievalData, RetrievalTask, load_retrieval
from opencse.evaluation.retrieval.result import RetrievalResult, RetrievalScore, retrieval_table
from opencse.evaluation.suite import Options, Suite

if TYPE_CHECKING:
    from rich.table import Table

DEPTH = 100


@dataclass(frozen=True)
class Retrieval(Suite[RetrievalTask, RetrievalScore, RetrievalResult]):
    """The measures of each data set, each the mean over its queries x 100.

    The texts are encoded one data set after another; their vectors are held in memory, the similarities in blocks.

    Attributes:
        similarity: ``cosine``, or ``dot`` for models trained with it.
        split: which judgements are read.
    """

    name = "retrieval"
    title = "retrieval"
    folder = "retrieval"
    by_task = True
    similarity: Similarity = "cosine"
    split: str = "test"

    @classmethod
    def of(cls, options: Options) -> Self:
        """See ``Suite``; there is nothing to choose."""
        return cls()

    def load(self, folder: Path, tasks: Sequence[str] | None = None) -> RetrievalData:
        """See ``load_retrieval``."""
        return load_retrieval(folder, tasks, split=self.split)

    def score(self, task: RetrievalTask, embedded: Embedded, device: str = "cpu") -> RetrievalScore:
        """See ``Suite``."""
        queries, documents = embedded.of(task.queries), embedded.of(task.documents)
        # One more than needed: the document with the query's own id may be among them and goes.
        positions, _ = nearest_rows(queries, documents, DEPTH + 1, self.similarity)
        rankings: list[tuple[list[int], list[int]]] = []  # of each query: levels as ranked, all levels judged
        for query, ranked, levels in zip(task.query_ids, positions.tolist(), task.judged, strict=True):
            others = [place for place in ranked if task.document_ids[place] != query][:DEPTH]
            rankings.append(([levels.get(place, 0) for place in others], list(levels.values())))
        return RetrievalScore(
            ndcg_at_10=_percent([ndcg(found, judged, 10) for found, judged in rankings]),
            mrr_at_10=_percent([reciprocal_rank(found, 10) for found, _ in rankings]),
            map_at_10=_percent([average_precision(found, judged, 10) for found, judged in rankings]),
            recall_at_1=_percent([recall(found, judged, 1) for found, judged in rankings]),
            recall_at_10=_percent([recall(found, judged, 10) for found, judged in rankings]),
            recall_at_100=_percent([recall(found, judged, 100) for found, judged in rankings]),
            queries=len(task.queries),
            without_relevant=task.without_relevant,
            documents=len(task.documents),
        )

    def record(self, scores: dict[str, RetrievalScore], told: Mapping[str, Any]) -> RetrievalResult:
        """See ``Suite``."""
        return RetrievalResult(
            **told,
            similarity=self.similarity,
            split=self.split,
            retrieval=scores,
            average=math.fsum(score.ndcg_at_10 for score in scores.values()) / len(scores),
        )

    def line(self, task: RetrievalTask, score: RetrievalScore) -> str:
        """See ``Suite``."""
        line = f"{task.name}: nDCG@10 {score.ndcg_at_10:.2f}, recall@100 {score.recall_at_100:.2f} over "
        line += f"{score.queries:,} queries, {score.documents:,} documents"
        if task.without_relevant:
            line += f"; {task.without_relevant:,} more queries have no relevant document and are left out"
        empty = sum(not text for text in task.documents)
        return f"{line}; {empty:,} documents are empty" if empty else line

    @classmethod
    def table(cls, results: Mapping[str, RetrievalResult]) -> Table:
        """See ``retrieval_table``."""
        return retrieval_table(results)


def _percent(values: Sequence[float]) -> float:
    return 100 * math.fsum(values) / len(values)
