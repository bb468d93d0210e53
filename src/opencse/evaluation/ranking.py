"""The corpus vectors nearest to each query, ranked without chance: equal scores stand in corpus order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opencse.arrays import Floats
from opencse.modules.similarity import Similarity
from opencse.search.exact import nearest_prepared
from opencse.statistics.correlation import cosine_of_rows

Vectors = NDArray[np.floating]
QUERIES = 64  # scored again at a time, so that the arrays of their candidates stay small
PAIRS = 4096  # scored at a time in float64
SPARE = 16  # candidates beyond k, so that ties which float32 tears apart are whole again before the cut


def nearest_rows(
    queries: Vectors, corpus: Vectors, k: int, similarity: Similarity = Similarity.COSINE
) -> tuple[NDArray[np.int64], Floats]:
    r"""The k rows of a corpus that are most similar to each query.

    The exact search finds candidates in float32; they are scored again in float64, pair by pair, so that the
    order depends neither on blocks nor on the processor, and equal vectors tie.

    Args:
        queries: (n, d), finite.
        corpus: (m, d), finite.
        k: how many, at least 1; at most m are returned.
        similarity: the function that compares them.

    Returns:
        (n, min(k, m)) positions in the corpus, the most similar first and equal ones in corpus order, and
        their similarities.

    Raises:
        ValueError: for k below 1, an empty corpus, or vectors of different lengths.
    """
    if k < 1 or not len(corpus) or queries.ndim != 2 or queries.shape[1:] != corpus.shape[1:]:
        raise ValueError(f"k {k}, queries {queries.shape}, corpus {corpus.shape}: (n, d) and (m, d), m and k from 1")
    sought, searched = similarity.prepared(queries), similarity.prepared(corpus)
    found, _ = nearest_prepared(sought, searched, k + SPARE, similarity=similarity)
    kept = min(k, len(corpus))
    positions = np.empty((len(queries), kept), dtype=np.int64)
    scores = np.empty((len(queries), kept))
    for start in range(0, len(queries), QUERIES):
        block = slice(start, start + QUERIES)
        exact = _score(queries[block], corpus, found[block], similarity)
        order = np.lexsort((found[block], -exact))[:, :kept]
        positions[block] = np.take_along_axis(found[block], order, axis=1)
        scores[block] = np.take_along_axis(exact, order, axis=1)
    return positions, scores


def _score(queries: Vectors, corpus: Vectors, found: NDArray[np.int64], similarity: Similarity) -> Floats:
    rows = np.repeat(np.arange(len(queries)), found.shape[1])
    places = found.ravel()
    parts = []
    for start in range(0, len(places), PAIRS):
        one, two = queries[rows[start : start + PAIRS]], corpus[places[start : start + PAIRS]]
        cosine = similarity is Similarity.COSINE
        parts.append(cosine_of_rows(one, two) if cosine else similarity.of_pairs(one, two))
    return np.concatenate(parts).reshape(found.shape)
