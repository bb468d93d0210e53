"""A served index: its searches, its map, and the cross-encoder that scores its hits again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from opencse.environment import require_packages
from opencse.errors import shortened
from opencse.modules.similarity import unit_rows
from opencse.numerals import number_of
from opencse.reranking.second_stage import SecondStage
from opencse.search.index import Index
from opencse.search.result import Hit, IndexInfo
from opencse.serving.guard import Metrics
from opencse.serving.requests import ApiError, Limits, overloaded
from opencse.serving.served_model import ServedModel, TokenizedTexts, Worker

Method = Literal["pca", "tsne"]
_COMPONENTS = 50
_PERPLEXITY = 30


def project(vectors: NDArray[np.floating], method: Method = "pca") -> NDArray[np.float64]:
    """Projects (n, d) vectors to (n, 2) points within [-1, 1]; deterministic.

    ``pca``: the two directions of largest variance of the L2-normalised vectors, on one scale. ``tsne``: t-SNE (van der
    Maaten and Hinton, 2008) of their first 50 principal components, which keeps neighbours together while distances
    between groups mean little; with fewer than 5 vectors ``pca`` is used.

    Example:
        >>> points = project(np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]))
        >>> points.shape, float(np.abs(points).max())
        ((3, 2), 1.0)
    """
    unit = unit_rows(vectors).astype(np.float64)
    if len(unit) < 2:
        return np.zeros((len(unit), 2))
    centred = unit - unit.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    leading = directions[:_COMPONENTS]
    signs = np.sign(np.take_along_axis(leading, np.abs(leading).argmax(axis=1, keepdims=True), axis=1))
    points = centred @ (leading * signs).T
    if method == "tsne" and len(unit) >= 5 and points.std() > 0:
        require_packages("tsne", "train", "sklearn")
        from sklearn.manifold import TSNE  # type: ignore[import-untyped]

        perplexity = min(_PERPLEXITY, (len(unit) - 1) / 3)
        points = TSNE(2, init="pca", perplexity=perplexity, random_state=0).fit_transform(points)
    flat = np.zeros((len(unit), 2))
    flat[:, : min(2, points.shape[1])] = points[:, :2]
    flat -= (flat.max(axis=0) + flat.min(axis=0)) / 2
    return np.asarray(flat / max(float(np.abs(flat).max()), 1e-12), dtype=np.float64)


def sampled(rows: int, most: int) -> list[range]:
    """Blocks of row numbers, evenly spread, of about ``most`` rows in total; all rows if there are no more.

    Example:
        >>> sampled(3, 10), len(sampled(10_000, 2_000))
        ([range(0, 3)], 200)
    """
    if rows <= most:
        return [range(rows)] if rows else []
    block = max(1, most // 200)
    starts = np.linspace(0, rows - block, most // block).round().astype(int)
    return [range(start, start + block) for start in starts.tolist()]


_SHORT = 300
"""Characters of a text that the map shows."""


class ServedIndex:
    """One index with a thread for its searches and a thread for its map."""

    def __init__(self, index: Index, points: int) -> None:
        self._index = index
        self._points = points
        self._searching = Worker("opencse-index")
        self._projecting = Worker("opencse-map")
        self._maps: dict[Method, tuple[str, asyncio.Task[dict[str, Any]]]] = {}

    async def info(self) -> IndexInfo:
        """Describes the index."""
        return await self._searching.call(self._index.info)

    async def examples(self, count: int) -> list[str]:
        """A few short texts from different parts of the index, as example queries."""

        def read() -> list[str]:
            rows = self._index.info().rows
            starts = [rows * i // count for i in range(count)] if rows >= count else range(rows)
            texts = [hit.text for start in starts for hit in self._index.rows(start, 1)]
            return [text for text in dict.fromkeys(texts) if len(text) <= _SHORT]

        return await self._searching.call(read)

    async def search(
        self,
        model: ServedModel,
        queries: Sequence[str],
        texts: TokenizedTexts,
        k: int,
        *,
        threshold: float | None,
        where: Mapping[str, object] | None,
        hybrid: bool,
        hybrid_weight: float | None,
    ) -> Sequence[Sequence[Hit]]:
        """Encodes the queries and finds the most similar rows to each.

        Raises:
            UserError: for an invalid condition.
            ApiError: if too many texts wait.
        """
        search = partial(
            self._index.search,
            queries,
            k,
            threshold=threshold,
            where=where,
            hybrid=hybrid,
            hybrid_weight=hybrid_weight,
            vectors=await model.vectors(texts),
        )
        return await self._searching.call(search)

    async def map(self, method: Method) -> dict[str, Any]:
        """Projects the index, or a sample of it, to two dimensions: ``method``, ``rows`` of the index, and ``points``.

        Done at the first request, and again after a change of the index.
        """
        stamp = await self._searching.call(lambda: self._index.stamp)
        map_stamp, task = self._maps.get(method, ("", None))
        if task is None or map_stamp != stamp or (task.done() and task.exception() is not None):
            task = asyncio.create_task(self._project(method))
            self._maps[method] = stamp, task
        return await asyncio.shield(task)

    @property
    def alive(self) -> bool:
        """Whether the search thread runs."""
        return self._searching.alive

    def close(self) -> None:
        """Ends the search thread after the searches so far; an unfinished map is abandoned."""
        self._searching.close()

    async def _project(self, method: Method) -> dict[str, Any]:
        rows, hits, vectors = await self._searching.call(self._sample)
        coordinates = await self._projecting.call(partial(project, vectors, method))
        points = [
            {"x": round(x, 4), "y": round(y, 4), "id": hit.id, "text": shortened(hit.text, _SHORT)}
            for (x, y), hit in zip(coordinates.tolist(), hits, strict=True)
        ]
        return {"method": method, "rows": rows, "points": points}

    def _sample(self) -> tuple[int, list[Hit], NDArray[np.float32]]:
        rows = self._index.info().rows
        blocks = sampled(rows, self._points)
        hits = [hit for block in blocks for hit in self._index.rows(block.start, len(block))]
        return rows, hits, self._index.vectors_of_hits([(hit.id, hit.text) for hit in hits])


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
        metrics.waiting_pairs.labels(self.name).set_function(lambda: self._waiting)

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
        self, queries: Sequence[str], results: Sequence[Sequence[Hit]], k: int, threshold: float | None
    ) -> list[list[Hit]]:
        """Orders all hits of each query by the scores of the cross-encoder.

        Args:
            queries: texts.
            results: the hits of each; see `Hit`.
            k: hits of each query that are returned.
            threshold: lowest score of the cross-encoder; None: any.
        """
        remaining = sum(map(len, results))
        self._waiting += remaining
        answers: list[list[Hit]] = []
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
