"""Exact search by blocked matrix product: no index, no recall question."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opencse.encoder.vectors import unit_rows

_BLOCK = 65_536


def top_k(
    queries: NDArray[np.floating], corpus: NDArray[np.floating], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The k corpus vectors of highest cosine to each query.

    Args:
        queries: (n, d).
        corpus: (m, d).
        k: how many; at most m are returned.

    Returns:
        (n, min(k, m)) corpus positions, the nearest first (equal cosines in corpus order), and their cosines.
    """
    k = min(k, len(corpus))
    wanted = unit_rows(queries)
    best = np.full((len(queries), 0), -np.inf, dtype=np.float32)
    places = np.zeros((len(queries), 0), dtype=np.int64)
    for start in range(0, len(corpus), _BLOCK):
        scores = wanted @ unit_rows(corpus[start : start + _BLOCK]).T
        best = np.concatenate([best, scores], axis=1)
        places = np.concatenate(
            [places, np.broadcast_to(np.arange(start, start + scores.shape[1]), scores.shape)], axis=1
        )
        order = np.argsort(-best, axis=1, kind="stable")[:, :k]
        best, places = np.take_along_axis(best, order, axis=1), np.take_along_axis(places, order, axis=1)
    return places, best
