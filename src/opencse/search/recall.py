"""Measures the recall of an approximate index against the exact search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opencse.ranking import PreparedVectors, nearest_prepared
from opencse.search.index import Index


@dataclass(frozen=True)
class Recall:
    """The share of the exact search's first k hits that the index finds among its first k.

    Example:
        >>> Recall({1: 0.995, 10: 0.98}, 200, True).line()
        'recall@1 0.9950, recall@10 0.9800 against the exact search (200 texts of the index, each without itself)'

    Attributes:
        at: recall by k, in [0, 1].
        queries: number of queries.
        held: whether the queries were texts of the index, each removed from its own hits.
    """

    at: dict[int, float]
    queries: int
    held: bool

    def line(self) -> str:
        """Describes the measurement in one line."""
        queries = "texts of the index, each without itself" if self.held else "queries"
        values = ", ".join(f"recall@{k} {value:.4f}" for k, value in self.at.items())
        return f"{values} against the exact search ({self.queries:,} {queries})"


def measure_recall(
    index: Index, queries: PreparedVectors | None = None, *, ks: tuple[int, ...] = (1, 10, 100), held: int = 200
) -> Recall:
    """Measures the recall of ``index`` at several k.

    Args:
        index: an approximate one (an exact one has recall 1).
        queries: (n, d) prepared for the index; None: a sample of the index's own vectors (fixed seed), each removed
            from its own hits in both searches.
        ks: numbers of hits.
        held: size of the sample.
    """
    with index.snapshot() as snapshot:
        positions = snapshot.positions
        sampled = None
        if queries is None:
            random = np.random.default_rng(0)
            sampled = np.sort(random.choice(positions, min(held, len(positions)), replace=False))
            queries = np.asarray(snapshot.vectors[sampled])
        depth = min(max(ks) + (sampled is not None), len(positions))
        exact, _ = nearest_prepared(queries, snapshot.vectors, depth, snapshot.living, similarity=snapshot.similarity)
        retrieved = exact
        if snapshot.approximate is not None:
            retrieved, _ = snapshot.approximate.search(queries, snapshot.vectors, depth, snapshot.living)
        recalls: dict[int, list[float]] = {k: [] for k in ks if k <= len(positions) - (sampled is not None)}
        for row in range(len(queries)):
            itself = -1 if sampled is None else int(sampled[row])
            expected = [position for position in exact[row].tolist() if position != itself]
            hits = [position for position in retrieved[row].tolist() if position != itself and position >= 0]
            for k, values in recalls.items():
                values.append(len(set(expected[:k]) & set(hits[:k])) / k)
    return Recall({k: float(np.mean(values)) for k, values in recalls.items()}, len(queries), sampled is not None)
