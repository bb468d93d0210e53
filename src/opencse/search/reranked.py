"""Re-ranks the hits of a search by a cross-encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from opencse.progress import Count
from opencse.reranking.second_stage import SecondStage
from opencse.search.result import SearchResult

SCORE = "cross-encoder"
"""What the scores of re-ranked hits are."""


def reranked(
    first: SearchResult,
    queries: Sequence[str],
    k: int,
    stage: SecondStage,
    *,
    threshold: float | None = None,
    progress: Count | None = None,
) -> SearchResult:
    """Orders the hits of each query by the scores of a cross-encoder, which take the place of theirs.

    Args:
        first: the hits that a search returned for the queries: at least k of them and those to re-rank.
        queries: the texts of the queries.
        k: number of hits for each query. All of them are scored, also where that is more than the stage's depth.
        stage: the cross-encoder.
        threshold: lowest score of the cross-encoder; None: any.
        progress: called with (pairs done, pairs in all).
    """
    deep = replace(stage, depth=max(stage.depth, k))
    orders = deep.reranked(queries, [[hit.text for hit in hits] for hits in first], progress)
    hits = [
        [
            replace(hits[position], score=score)
            for position, score in order[:k]
            if threshold is None or score >= threshold
        ]
        for hits, order in zip(first, orders, strict=True)
    ]
    return SearchResult(hits, SCORE, first.language, first.similarity)
