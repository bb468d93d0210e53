"""Serves one index: searches it on one thread, and keeps its map until the index changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from opencse.errors import shortened
from opencse.serving.projection import Method, project, sampled
from opencse.serving.served_model import ServedModel, TokenizedTexts
from opencse.serving.worker import Worker

_SHORT = 300
"""Characters of a text that the map shows."""


class IndexHit(Protocol):
    """A row that a search found (`opencse.search.result.Hit`)."""

    @property
    def id(self) -> str:
        """Id of the row."""

    @property
    def score(self) -> float:
        """Similarity to the query."""

    @property
    def text(self) -> str:
        """Text of the row."""

    @property
    def metadata(self) -> Mapping[str, object]:
        """Values by column."""

    @property
    def copies(self) -> Sequence[str]:
        """Ids of other rows of the same text."""

    @property
    def similarity(self) -> float | None:
        """To the query, where the score is another number."""


class IndexDescription(Protocol):
    """Describes an index (`opencse.search.result.IndexInfo`)."""

    @property
    def rows(self) -> int:
        """Number of texts."""

    @property
    def documents(self) -> int:
        """Number of different ids."""

    @property
    def kind(self) -> str:
        """flat, hnsw or ivfpq."""

    @property
    def columns(self) -> Iterable[str]:
        """Columns of metadata."""


class Searchable(Protocol):
    """What the server uses of an index (`opencse.search.index.Index`)."""

    @property
    def stamp(self) -> str:
        """A text that changes with every change of the index."""

    def search(
        self,
        queries: Sequence[str] | NDArray[np.floating],
        k: int = 10,
        *,
        threshold: float | None = None,
        where: Mapping[str, object] | None = None,
        hybrid: bool = False,
        hybrid_weight: float | None = None,
        vectors: NDArray[np.floating] | None = None,
    ) -> Sequence[Sequence[IndexHit]]:
        """Finds the most similar rows to each query."""

    def info(self) -> IndexDescription:
        """Describes the index."""

    def vectors(self, ids: Sequence[str] | None = None) -> NDArray[np.float32]:
        """Vectors of rows by id, or of all."""

    def rows(self, offset: int, limit: int) -> Sequence[IndexHit]:
        """Rows in their order."""


@dataclass(frozen=True)
class Point:
    """A text on the map."""

    x: float
    y: float
    id: str
    text: str


@dataclass(frozen=True)
class IndexMap:
    """The texts of an index, or a sample of them, in two dimensions.

    Example:
        >>> IndexMap("pca", 1, [Point(0.0, 0.0, "7", "A cat sleeps.")]).points[0].text
        'A cat sleeps.'

    Attributes:
        method: the method of the projection.
        rows: number of texts in the index.
        points: the texts that are shown.
    """

    method: Method
    rows: int
    points: list[Point]


class ServedIndex:
    """One index with a thread for its searches and a thread for its map."""

    def __init__(self, index: Searchable, points: int) -> None:
        self._index = index
        self._points = points
        self._searching = Worker("opencse-index")
        self._projecting = Worker("opencse-map")
        self._maps: dict[Method, tuple[str, asyncio.Task[IndexMap]]] = {}

    async def info(self) -> IndexDescription:
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
    ) -> Sequence[Sequence[IndexHit]]:
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

    async def map(self, method: Method) -> IndexMap:
        """Projects the index to two dimensions; done at the first request, and again after a change of the index."""
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

    async def _project(self, method: Method) -> IndexMap:
        rows, hits, vectors = await self._searching.call(self._sample)
        coordinates = await self._projecting.call(partial(project, vectors, method))
        points = [
            Point(round(x, 4), round(y, 4), hit.id, shortened(hit.text, _SHORT))
            for (x, y), hit in zip(coordinates.tolist(), hits, strict=True)
        ]
        return IndexMap(method, rows, points)

    def _sample(self) -> tuple[int, list[IndexHit], NDArray[np.float32]]:
        info = self._index.info()
        blocks = sampled(info.rows, self._points)
        hits = [hit for block in blocks for hit in self._index.rows(block.start, len(block))]
        if info.documents == info.rows:
            return info.rows, hits, self._index.vectors([hit.id for hit in hits])
        rows = [row for block in blocks for row in block]  # passages share their document's id
        return info.rows, hits, self._index.vectors()[rows]
