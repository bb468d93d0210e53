"""Retrieval: do the documents nearest to a query answer it?

BEIR's protocol (Thakur et al. 2021): every document is ranked by its vector's similarity to the query's, title and
text of a document are one text, a document with the query's own id is left out, and trec_eval's measures are
averaged over queries. Differences: equal similarities stand in corpus order (trec_eval: by id, descending), and
queries without a relevant document are left out and counted (BEIR's code counts them as 0).
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from opencse.environment import Environment
from opencse.evaluation.embedding import Embedded, Encode, Progress, distinct, embed, silent
from opencse.evaluation.measures import average_precision, ndcg, recall, reciprocal_rank
from opencse.evaluation.ranking import Similarity, nearest_rows
from opencse.evaluation.record import DataRecord
from opencse.evaluation.retrieval.data import RetrievalData, RetrievalTask
from opencse.evaluation.retrieval.result import RetrievalResult, RetrievalScore

DEPTH = 100


def evaluate_retrieval(
    encode: Encode,
    data: RetrievalData,
    *,
    model: str | None = None,
    pooling: str | None = None,
    device: str | None = None,
    similarity: Similarity = "cosine",
    progress: Progress | None = None,
) -> RetrievalResult:
    """Judges an encoder on retrieval data sets.

    Args:
        encode: texts -> (n, d); called once a data set, on its distinct texts. Their vectors are held in memory,
            the similarities only in blocks.
        data: from ``load_retrieval``.
        model: recorded in the result; so are ``pooling`` and ``device``.
        pooling: see ``model``.
        device: see ``model``.
        similarity: ``cosine``, or ``dot`` for models trained with it.
        progress: called with one line at each step.

    Raises:
        UserError: if a vector holds NaN or infinite values.
        ValueError: if ``encode`` does not return an (n, d) array.
    """
    tell = progress or silent
    started = time.perf_counter()
    scores: dict[str, RetrievalScore] = {}
    for name, task in data.tasks.items():
        tell(_describe(task))
        begun = time.perf_counter()
        embedded = embed(encode, distinct([task.queries, task.documents]))
        tell(f"{name}: encoded in {time.perf_counter() - begun:.1f} s")
        scores[name] = score_retrieval(task, embedded, similarity)
        tell(
            f"{name}: nDCG@10 {scores[name].ndcg_at_10:.2f}, recall@100 {scores[name].recall_at_100:.2f} "
            f"over {len(task.queries):,} queries"
        )
    return RetrievalResult(
        model=model,
        pooling=pooling,
        data=DataRecord(
            source=data.source, text="raw", sha256={name: task.sha256() for name, task in data.tasks.items()}
        ),
        environment=Environment.here(device),
        seconds=time.perf_counter() - started,
        similarity=similarity,
        split=data.split,
        retrieval=scores,
        average=math.fsum(score.ndcg_at_10 for score in scores.values()) / len(scores),
    )


def score_retrieval(task: RetrievalTask, embedded: Embedded, similarity: Similarity = "cosine") -> RetrievalScore:
    """The measures of one data set from the vectors of its texts, each the mean over the queries x 100."""
    queries = embedded.of(task.queries)
    documents = embedded.of(task.documents)
    # One more than needed: the document with the query's own id may be among them and goes.
    positions, _ = nearest_rows(queries, documents, DEPTH + 1, similarity)
    found, judged = [], []
    for query, ranked, levels in zip(task.query_ids, positions.tolist(), task.judged, strict=True):
        others = [place for place in ranked if task.document_ids[place] != query][:DEPTH]
        found.append([levels.get(place, 0) for place in others])
        judged.append(list(levels.values()))
    both = list(zip(found, judged, strict=True))
    return RetrievalScore(
        ndcg_at_10=_percent([ndcg(levels, all_levels, 10) for levels, all_levels in both]),
        mrr_at_10=_percent([reciprocal_rank(levels, 10) for levels in found]),
        map_at_10=_percent([average_precision(levels, all_levels, 10) for levels, all_levels in both]),
        recall_at_1=_percent([recall(levels, all_levels, 1) for levels, all_levels in both]),
        recall_at_10=_percent([recall(levels, all_levels, 10) for levels, all_levels in both]),
        recall_at_100=_percent([recall(levels, all_levels, 100) for levels, all_levels in both]),
        queries=len(task.queries),
        without_relevant=task.without_relevant,
        documents=len(task.documents),
    )


def _percent(values: Sequence[float]) -> float:
    return 100 * math.fsum(values) / len(values)


def _describe(task: RetrievalTask) -> str:
    line = f"{task.name}: {len(task.documents):,} documents, {len(task.queries):,} queries"
    if task.without_relevant:
        line += f" ({task.without_relevant:,} more have no relevant document and are left out)"
    empty = sum(not text for text in task.documents)
    return f"{line}; {empty:,} documents are empty" if empty else line
