"""Retrieval: do the documents nearest to a query answer it?

BEIR's protocol (Thakur et al. 2021): every document is ranked by its vector's similarity to the query's, title and
text of a document are one text, and trec_eval's measures are averaged over queries. Differences: a document with the
query's own id is left out only where it is not judged relevant to that query (BEIR's code removes it always, trec_eval
and pytrec_eval never, mteb for the tasks that say so); equal similarities are in corpus order (trec_eval: by id,
descending); and queries without a relevant document are left out and counted (BEIR's code counts them as 0).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from opencse.evaluation.embedding import Embedded, EmbeddingModel, embed_for_search
from opencse.evaluation.retrieval.data import RetrievalData, RetrievalTask, load_retrieval
from opencse.evaluation.retrieval.rankings import OwnDocuments, rankings
from opencse.evaluation.retrieval.result import RetrievalResult, RetrievalScore, retrieval_table
from opencse.evaluation.suite import Options, Suite
from opencse.modules.similarity import Similarity
from opencse.ranking import average_precision, ndcg, recall, reciprocal_rank

if TYPE_CHECKING:
    from rich.table import Table

DEPTH = 100


@dataclass(frozen=True)
class Retrieval(Suite[RetrievalTask, RetrievalScore, RetrievalResult]):
    """The measures of each data set, each the mean over its queries x 100.

    The texts are encoded one data set after another; their vectors are held in memory, the similarities in blocks.

    Attributes:
        similarity: what documents are ranked by; None: the model's own function.
        split: which judgements are read.
        keep_identical_ids: rank a document with the query's own id also where it is not judged relevant.
    """

    name = "retrieval"
    title = "retrieval"
    folder = "retrieval"
    by_task = True
    similarity: Similarity | None = None
    split: str = "test"
    keep_identical_ids: bool = False

    @classmethod
    def of(cls, options: Options) -> Self:
        """See ``Suite``."""
        return cls(keep_identical_ids=options.keep_identical_ids)

    def load(self, folder: Path, tasks: Sequence[str] | None = None) -> RetrievalData:
        """See ``load_retrieval``."""
        return load_retrieval(folder, tasks, split=self.split)

    def embed(self, model: EmbeddingModel, tasks: Iterable[RetrievalTask]) -> Embedded:
        """The vectors of queries and documents, each with its prompt where the model has one; see ``Suite``."""
        return embed_for_search(model, ((task.queries, task.documents) for task in tasks))

    def score(self, task: RetrievalTask, embedded: Embedded, device: str = "cpu") -> RetrievalScore:
        """See ``Suite``."""
        own = OwnDocuments.of(task, self.keep_identical_ids)
        ranked = list(rankings(task, embedded, DEPTH, own, self.similarity))
        return RetrievalScore(
            ndcg_at_10=_percent([ndcg(one.found, one.judged, 10) for one in ranked]),
            mrr_at_10=_percent([reciprocal_rank(one.found, 10) for one in ranked]),
            map_at_10=_percent([average_precision(one.found, one.judged, 10) for one in ranked]),
            recall_at_1=_percent([recall(one.found, one.judged, 1) for one in ranked]),
            recall_at_10=_percent([recall(one.found, one.judged, 10) for one in ranked]),
            recall_at_100=_percent([recall(one.found, one.judged, 100) for one in ranked]),
            queries=len(task.queries),
            without_relevant=task.without_relevant,
            documents=len(task.documents),
            identical_ids=own.count,
            similarity=self.similarity or embedded.similarity,
        )

    def record(self, scores: dict[str, RetrievalScore], told: Mapping[str, Any]) -> RetrievalResult:
        """See ``Suite``."""
        return RetrievalResult(
            **told,
            similarity=next(iter(scores.values())).similarity,
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
        own = OwnDocuments.of(task, self.keep_identical_ids).note()
        more = [*([f"{empty:,} documents are empty"] if empty else []), *([own] if own else []), *task.notes]
        return "; ".join([line, *more])

    @classmethod
    def table(cls, results: Mapping[str, RetrievalResult]) -> Table:
        """See ``retrieval_table``."""
        return retrieval_table(results)


def _percent(values: Sequence[float]) -> float:
    return 100 * math.fsum(values) / len(values)
