"""Serves one cross-encoder: re-ranks the hits of searches on one thread, query by query."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from opencse.numerals import number_of
from opencse.reranking.second_stage import SecondStage
from opencse.serving.errors import ApiError, overloaded
from opencse.serving.limits import Limits
from opencse.serving.metrics import Metrics
from opencse.serving.served_index import IndexHit
from opencse.serving.worker import Worker


class ServedReranker:
    """A cross-encoder with a thread; requests take turns after each query.

    Attributes:
        name: the name of the model: a Hub id, or the last part of its folder, so that clients do not see where it is.
        depth: hits of each query that are re-ranked unless a request says otherwise.
    """

    def __init__(self, stage: SecondStage, limits: Limits, metrics: Metrics) -> None:
        self.name = Path(stage.model.name).name if Path(stage.model.name).exists() else stage.model.name
        self.depth = stage.depth
        self._stage = stage
        self._limits = limits
        self._metrics = metrics
        self._scoring = Worker("opencse-reranker")
        self._waiting = 0
        self._rate = 0.0
        metrics.watch_waiting_pairs(self.name, lambda: self._waiting)

    def hits(self, queries: int, k: int, depth: int | None) -> int:
        """The number of hits of each query that are scored: all that are returned, and at least ``depth``.

        Raises:
            ApiError: for more than a request may have scored, or if too many pairs wait.
        """
        if depth is not None and depth > self._limits.hits:
            most = self._limits.hits
            raise ApiError(400, f"rerank_depth: at most {most:,}; ask for fewer", param="rerank_depth")
        count = max(k, self.depth if depth is None else depth)
        if queries * count > self._limits.reranked:
            most = self._limits.reranked
            message = (
                f"{queries:,} x {count:,} texts to re-rank are more than the {most:,} of one request; send "
                "fewer queries, a lower k or rerank_depth, or rerank: false"
            )
            raise ApiError(400, message, code="too_many_pairs")
        if self._waiting >= self._limits.waiting_texts:
            seconds = min(60, round(self._waiting / self._rate)) if self._rate else 1
            texts = number_of(self._waiting, "text waits", "texts wait")
            raise overloaded(f"{texts} for the cross-encoder; try again in a while", seconds)
        return count

    async def rerank(
        self, queries: Sequence[str], results: Sequence[Sequence[Any]], k: int, threshold: float | None
    ) -> list[list[IndexHit]]:
        """Orders all hits of each query by the scores of the cross-encoder.

        Args:
            queries: texts.
            results: the hits of each; see `IndexHit`.
            k: hits of each query that are returned.
            threshold: lowest score of the cross-encoder; None: any.
        """
        remaining = sum(map(len, results))
        self._waiting += remaining
        answers: list[list[IndexHit]] = []
        try:
            for query, hits in zip(queries, results, strict=True):
                order = await self._scoring.call(partial(self._order, query, [hit.text for hit in hits]))
                self._waiting -= len(hits)
                remaining -= len(hits)
                ranked = [(hits[position], score) for position, score in order[:k]]
                answers.append(
                    [replace(hit, score=score) for hit, score in ranked if threshold is None or score >= threshold]
                )
        finally:
            self._waiting -= remaining
        return answers

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._scoring.alive

    def close(self) -> None:
        """Ends the thread after the queries so far."""
        self._scoring.close()

    def _order(self, query: str, texts: Sequence[str]) -> list[tuple[int, float]]:
        if not texts:
            return []
        started = time.perf_counter()
        (order,) = replace(self._stage, depth=len(texts)).reranked([query], [texts])
        spent = time.perf_counter() - started
        self._metrics.reranked(self.name, len(texts), spent)
        self._rate = len(texts) / max(spent, 1e-9)
        return order
