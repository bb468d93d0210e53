"""Are similar sentences near, and all sentences spread out? Alignment and uniformity."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opencse.analysis.tiles import pair_cosines, require_vectors, tiles, unit
from opencse.errors import UserError
from opencse.evaluation import Embedded, ScoredPairs

HIGH = 0.8
"""Pairs are positives above this share of the highest gold score: above 4 of 5, as in SimCSE's figures."""


def alignment(first: NDArray[np.floating], second: NDArray[np.floating]) -> float:
    r"""Mean squared distance of the two sides of positive pairs, at unit length (SimCSE, eq. 2).

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
    """
    require_vectors(first)
    if first.shape != second.shape:
        raise ValueError(f"two (n, d) arrays of one shape are expected, got {first.shape} and {second.shape}")
    sums = [np.square(unit(first, rows) - unit(second, rows)).sum() for rows in tiles(first)]
    return math.fsum(sums) / len(first)


def positive_sides(embedded: Embedded, pairs: ScoredPairs) -> tuple[NDArray[np.floating], NDArray[np.floating]] | None:
    """The two sides (p, d) of the pairs of high gold score, for `alignment`; None if there are none.

    A pair is positive above ``HIGH`` of the highest gold score; ``embedded`` holds both texts of every pair.
    """
    chosen = np.flatnonzero(pairs.scores > HIGH * pairs.scores.max()).tolist()
    if not chosen:
        return None
    first, second = ([side[i] for i in chosen] for side in (pairs.first, pairs.second))
    return embedded.of(first), embedded.of(second)


@dataclass(frozen=True)
class Pairs:
    """What a pass over all pairs i < j finds.

    Attributes:
        uniformity: see ``uniformity``.
        least: the lowest cosine.
    """

    uniformity: float
    least: float


def all_pairs(vectors: NDArray[np.floating], t: float = 2.0) -> Pairs:
    """``uniformity`` and the lowest cosine over all pairs; n^2 d operations, in memory of some 50 MB."""
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
    return Pairs(uniformity=total - math.log(count), least=least)


def uniformity(vectors: NDArray[np.floating], t: float = 2.0) -> float:
    r"""How evenly n vectors lie on the sphere (SimCSE, eq. 3).

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
    """
    return all_pairs(vectors, t).uniformity
