"""Alignment and uniformity: whether similar sentences are near each other, and all sentences spread out."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from opencse.analysis.tiles import pair_cosines, require_vectors, tiles, unit
from opencse.arrays import Vectors
from opencse.errors import UserError
from opencse.evaluation import Embedded, ScoredPairs

HIGH = 0.8
"""Pairs are positives above this share of the highest gold score: above 4 of 5, as in SimCSE's figures."""


def alignment(first: Vectors, second: Vectors) -> float:
    r"""Returns the mean squared distance of the two sides of positive pairs, at unit length (SimCSE, eq. 2).

    .. math:: \ell_{\text{align}} = \frac1n \sum_i \|f(x_i) - f(x_i^+)\|^2, \qquad \|f\| = 1

    Defined by Wang and Isola (2020), here with their exponent 2. The papers take the pairs of STS-B with a gold score
    above 4 as positive. Lower is better by itself; a model that maps all texts to one point has 0.

    Args:
        first: (n, d), any length.
        second: (n, d).

    Returns:
        A value in [0, 4]; 2 - 2 times the mean cosine.

    Raises:
        UserError: for no pairs, a vector of zeros, or NaN or infinite values.
        ValueError: if the shapes differ or are not (n, d).

    Example:
        >>> first, second = np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[3.0, 0.0], [1.0, 0.0]])
        >>> alignment(first, second)
        1.0
    """
    require_vectors(first)
    if first.shape != second.shape:
        raise ValueError(f"two (n, d) arrays of one shape are expected, got {first.shape} and {second.shape}")
    sums = [np.square(unit(first, rows) - unit(second, rows)).sum() for rows in tiles(first)]
    return math.fsum(sums) / len(first)


def positive_sides(embedded: Embedded, pairs: ScoredPairs) -> tuple[Vectors, Vectors] | None:
    """Selects the two sides (p, d) of the pairs of high gold score, for `alignment`; None if there are none.

    A pair is positive above ``HIGH`` of the highest gold score; ``embedded`` holds both texts of every pair.
    """
    rows = np.flatnonzero(pairs.scores > HIGH * pairs.scores.max()).tolist()
    if not rows:
        return None
    first, second = ([side[i] for i in rows] for side in (pairs.first, pairs.second))
    return embedded.of(first), embedded.of(second)


@dataclass(frozen=True)
class PairStatistics:
    """Statistics over all pairs i < j of a set of vectors.

    Attributes:
        uniformity: see ``uniformity``.
        least: the lowest cosine.
    """

    uniformity: float
    least: float


def all_pairs(vectors: Vectors, t: float = 2.0) -> PairStatistics:
    """Computes ``uniformity`` and the lowest cosine over all pairs; n^2 d operations, in some 50 MB of memory."""
    require_vectors(vectors, 2)
    if not 0 < t < math.inf:
        raise UserError(f"t of uniformity is a number above 0, not {t}")
    total, least, count = -math.inf, math.inf, 0
    for cosines in pair_cosines(vectors):
        highest = float(cosines.max())
        least, count = min(least, float(cosines.min())), count + cosines.size
        # ||u - v||^2 = 2 - 2 cos; the highest exponent is taken out, so that a large t does not leave a sum of zeros.
        cosines -= highest
        cosines *= 2 * t
        inner = math.log(float(np.exp(cosines, out=cosines).sum()))
        total = float(np.logaddexp(total, 2 * t * (highest - 1) + inner))
    return PairStatistics(uniformity=total - math.log(count), least=least)


def uniformity(vectors: Vectors, t: float = 2.0) -> float:
    r"""Measures how evenly n vectors are spread on the sphere (SimCSE, eq. 3).

    .. math:: \ell_{\text{uniform}} = \log \frac{2}{n(n-1)} \sum_{i<j} e^{-t \|f(x_i) - f(x_j)\|^2}, \qquad \|f\| = 1

    Defined by Wang and Isola (2020), t = 2. Their code and ours take every pair of distinct rows once; the
    expectation in the paper, read literally, would have each vector with itself too. Lower is better: 0 for one
    point, near -2t = -4 for points spread over a sphere of many dimensions. Exact for whatever is given; n^2 d
    operations, so 20,000 x 768 take some 10 seconds of one core.

    Args:
        vectors: (n, d), any length.
        t: above 0.

    Returns:
        A value in [-4t, 0].

    Raises:
        UserError: for fewer than 2 vectors, a vector of zeros, NaN or infinite values, or t not above 0.
        ValueError: if the array is not (n, d).

    Example:
        >>> round(uniformity(np.array([[1.0, 0.0], [-1.0, 0.0]])), 6), round(abs(uniformity(np.ones((3, 2)))), 6)
        (-8.0, 0.0)
    """
    return all_pairs(vectors, t).uniformity
