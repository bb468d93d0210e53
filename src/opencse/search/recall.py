"""What an approximate index misses, measured against the exact search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opencse.ranking import nearest_prepared
from opencse.search.index import Index


@dataclass(frozen=True)
class Recall:
    """Part of the exact search's first k that the index finds among its own.

    Attributes:
        at: by k, in [0, 1].
        queries: how many were asked.
        held: whether they were held texts of the index, each left out of its own lists.
    """

    at: dict[int, float]
    queries: int
    held: bool

    def line(self) -> str:
        """The measurement in a line."""
        what = "texts of the index, each left out of its own list" if self.held else "queries"
        found = ", ".join(f"recall@{k} {value:.4f}" for k, value in self.at.items())
        return f"{found} against the exact search ({self.queries:,} {what})"


def measure_recall(
    index: Index, queries: NDArray[np.float32] | None = None, *, ks: tuple[int, ...] = (1, 10, 100), held: int = 200
) -> Recall:
    """The recall of ``index`` at several k.

    Args:
        index: an approximate one (of a flat one it is 1).
        queries: (n, d) prepared for the index; None: some of the index's own vectors, drawn with a fixed seed, each
            with itself left out of what both searches find.
        ks: how many are looked at.
        held: vectors drawn.
    """
    with index.moment() as state:
        places = state.places
        own = None
        if queries is None:
            random = np.random.default_rng(0)
            own = np.sort(random.choice(places, min(held, len(places)), replace=False))
            queries = np.asarray(state.vectors[own])
        depth = min(max(ks) + (own is not None), len(places))
        exact, _ = nearest_prepared(queries, state.vectors, depth, state.alive, similarity=state.similarity)
        found = exact
        if state.engine is not None:
            found, _ = state.engine.search(queries, state.vectors, depth, state.alive)
        hits: dict[int, list[float]] = {k: [] for k in ks if k <= len(places) - (own is not None)}
        for row in range(len(queries)):
            self_place = -1 if own is None else int(own[row])
            right = [place for place in exact[row].tolist() if place != self_place]
            got = [place for place in found[row].tolist() if place != self_place and place >= 0]
            for k, values in hits.items():
                values.append(len(set(right[:k]) & set(got[:k])) / k)
    return Recall({k: float(np.mean(values)) for k, values in hits.items()}, len(queries), own is not None)
