"""An index as it is served: asked on one thread, with maps of it that are kept until it changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from opencse.errors import shortened
from opencse.serving.projection import Method, project, sampled
from opencse.serving.served_model import Given, ServedModel
from opencse.serving.worker import Worker

_TOLD = 300
"""Characters of a text that the map tells."""


class Found(Protocol):
    """A row of an index, as a search finds it."""

    @property
    def id(self) -> str:
        """Its name."""

    @property
    def score(self) -> float:
        """How near it is."""

    @property
    def text(self) -> str:
        """What was encoded."""

    @property
    def metadata(self) -> Mapping[str, object]:
        """Its columns."""


class Info(Protocol):
    """What an index is."""

    @property
    def rows(self) -> int:
        """How many texts."""

    @property
    def documents(self) -> int:
        """How many different ids."""

    @property
    def kind(self) -> str:
        """How it is searched."""

    @property
    def columns(self) -> Iterable[str]:
        """Of its metadata."""


class Searchable(Protocol):
    """What is asked of an index (`opencse.search.index.Index`)."""

    @property
    def stamp(self) -> str:
        """Another one after every change."""

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
    ) -> Sequence[Sequence[Found]]:
        """The nearest rows of each query."""

    def info(self) -> Info:
        """What it is."""

    def vectors(self, ids: Sequence[str] | None = None) -> NDArray[np.float32]:
        """Of the rows named."""

    def rows(self, offset: int, limit: int) -> Sequence[Found]:
        """Some rows in their order."""


@dataclass(frozen=True)
class Point:
    """A text on the map."""

    x: float
    y: float
    id: str
    text: str


@dataclass(frozen=True)
class Map:
    """A corpus, or a sample of it, in two dimensions.

    Attributes:
        method: how it was laid out.
        rows: texts of the corpus.
        points: those shown.
    """

    method: Method
    rows: int
    points: list[Point]

    def told(self) -> dict[str, object]:
        """For an answer."""
        return asdict(self)


class ServedIndex:
    """One index, asked on a thread of its own."""

    def __init__(self, index: Searchable, points: int) -> None:
        self._index = index
        self._points = points
        self._asking = Worker("opencse-index")
        self._drawing = Worker("opencse-map")
        self._maps: dict[Method, tuple[str, asyncio.Task[Map]]] = {}

    async def info(self) -> Info:
        """What it is."""
        return await self._asking.call(self._index.info)

    async def examples(self, count: int) -> list[str]:
        """Some of its texts, from all over it, to begin with."""

        def read() -> list[str]:
            rows = self._index.info().rows
            starts = [rows * i // count for i in range(count)] if rows >= count else range(rows)
            found = [hit.text for start in starts for hit in self._index.rows(start, 1)]
            return [text for text in dict.fromkeys(found) if len(text) <= _TOLD]

        return await self._asking.call(read)

    async def search(
        self,
        model: ServedModel,
        queries: Sequence[str],
        given: Given,
        k: int,
        *,
        threshold: float | None,
        where: Mapping[str, object] | None,
        hybrid: bool,
        hybrid_weight: float | None,
    ) -> Sequence[Sequence[Found]]:
        """The nearest rows of each query, the nearest first.

        Raises:
            UserError: for a condition that cannot be asked.
            ApiError: if too much waits.
        """
        search = partial(
            self._index.search,
            queries,
            k,
            threshold=threshold,
            where=where,
            hybrid=hybrid,
            hybrid_weight=hybrid_weight,
            vectors=await model.vectors(given),
        )
        return await self._asking.call(search)

    async def map(self, method: Method) -> Map:
        """The map, made when it is first asked for, and again after a change of the index."""
        stamp = await self._asking.call(lambda: self._index.stamp)
        made_of, making = self._maps.get(method, ("", None))
        if making is None or made_of != stamp or (making.done() and making.exception() is not None):
            making = asyncio.create_task(self._draw(method))
            self._maps[method] = stamp, making
        return await asyncio.shield(making)

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._asking.alive

    def close(self) -> None:
        """Ends its thread after what was asked; a map in the making is left behind."""
        self._asking.close()

    async def _draw(self, method: Method) -> Map:
        rows, found, vectors = await self._asking.call(self._sample)
        places = await self._drawing.call(partial(project, vectors, method))
        points = [
            Point(round(x, 4), round(y, 4), hit.id, shortened(hit.text, _TOLD))
            for (x, y), hit in zip(places.tolist(), found, strict=True)
        ]
        return Map(method, rows, points)

    def _sample(self) -> tuple[int, list[Found], NDArray[np.float32]]:
        info = self._index.info()
        blocks = sampled(info.rows, self._points)
        found = [hit for block in blocks for hit in self._index.rows(block.start, len(block))]
        if info.documents == info.rows:
            return info.rows, found, self._index.vectors([hit.id for hit in found])
        places = [place for block in blocks for place in block]  # passages share their document's id
        return info.rows, found, self._index.vectors()[places]
