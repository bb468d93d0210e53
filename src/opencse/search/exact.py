"""Exact search by blocks: no recall question, and equal scores stand in corpus order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opencse.modules.similarity import Similarity

Places = NDArray[np.int64]
Scores = NDArray[np.float64]
Prepared = NDArray[np.float32]

_BLOCK, _FIRST = 65_536, 4_096
_QUERIES = 64
_PAIRS = 4_096
SPARE = 16
"""Candidates beyond k that are scored again."""


def nearest_prepared(
    queries: Prepared,
    vectors: Prepared,
    k: int,
    places: Places | None = None,
    *,
    similarity: Similarity = Similarity.COSINE,
) -> tuple[Places, Scores]:
    r"""The k rows most similar to each query, of prepared vectors (see `Similarity`); exact.

    Candidates are found in float32 and scored again in float64, pair by pair, so that neither blocks nor the
    processor move the order. As :math:`|\mathrm{fl}(q \cdot v) - q \cdot v| \le d\,2^{-24}` for unit vectors, a row
    that is no candidate can be told to be none of the k; where it cannot (many equal texts), more are taken.

    Args:
        queries: (n, d) prepared.
        vectors: (m, d) prepared; may be memory-mapped.
        k: how many.
        places: (p,) ascending rows of ``vectors`` to search among; None: all.
        similarity: the function that they are prepared for.

    Returns:
        (n, min(k, p)) rows of ``vectors``, the nearest first and equal ones in their order, and their similarities.
    """
    there = len(vectors) if places is None else len(places)
    kept = min(k, there)
    found = np.empty((len(queries), kept), dtype=np.int64)
    scores = np.empty((len(queries), kept))
    if not kept:
        return found, scores
    slack = similarity.slack(queries, vectors)
    without = ~queries.any(axis=1) & similarity.is_product  # of no direction: all rows are equally near
    found[without], scores[without] = np.arange(kept) if places is None else places[:kept], 0.0
    sought = np.flatnonzero(~without)
    for start in range(0, len(sought), _QUERIES):
        pending = sought[start : start + _QUERIES]
        most = kept + SPARE
        while len(pending):
            most = min(most, there)
            candidates, rough = _candidates(queries[pending], vectors, most, places, similarity)
            exact = similarities(queries[pending], vectors, candidates, similarity)
            order = np.lexsort((candidates, -exact))[:, :kept]
            found[pending] = np.take_along_axis(candidates, order, axis=1)
            scores[pending] = np.take_along_axis(exact, order, axis=1)
            if most == there:
                break
            last = similarity.on_rough_scale(scores[pending, kept - 1])
            pending = pending[last <= rough.min(axis=1) + slack]
            most *= 4
    return found, scores


def similarities(queries: Prepared, vectors: Prepared, found: Places, similarity: Similarity) -> Scores:
    """(n, c) similarities in float64 of each query with its rows ``found``, each pair by itself."""
    rows, places = np.repeat(np.arange(len(queries)), found.shape[1]), found.ravel()
    parts = [np.empty(0)]
    for start in range(0, len(places), _PAIRS):
        block = slice(start, start + _PAIRS)
        parts.append(similarity.of_pairs(queries[rows[block]], vectors[places[block]]))
    return np.concatenate(parts).reshape(found.shape)


def _candidates(
    queries: Prepared, vectors: Prepared, most: int, places: Places | None, similarity: Similarity
) -> tuple[Places, NDArray[np.float32]]:
    """The ``most`` best rows of each query in float32, unordered, and their rough scores.

    Blocks grow from few rows, so that of each later one hardly a row is above what a query has already.
    """
    there = len(vectors) if places is None else len(places)
    best = np.empty((len(queries), 0), dtype=np.float32)
    found = np.empty((len(queries), 0), dtype=np.int64)
    start, size = 0, min(_BLOCK, max(_FIRST, most))
    while start < there:
        end = min(start + size, there)
        block = vectors[start:end] if places is None else vectors[places[start:end]]
        rows = np.arange(start, end) if places is None else places[start:end]
        scores = similarity.rough(queries, block)
        if best.shape[1] == most:
            above = np.flatnonzero((scores > best.min(axis=1, keepdims=True)).any(axis=0))
            scores, rows = scores[:, above], rows[above]
        best = np.concatenate([best, scores], axis=1)
        found = np.concatenate([found, np.broadcast_to(rows, scores.shape)], axis=1)
        if best.shape[1] > most:
            chosen = np.argpartition(best, -most, axis=1)[:, -most:]
            best, found = np.take_along_axis(best, chosen, axis=1), np.take_along_axis(found, chosen, axis=1)
        start, size = end, min(2 * size, _BLOCK)
    return found, best
