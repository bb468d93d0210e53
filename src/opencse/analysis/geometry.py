"""The geometry of a set of vectors: alignment, uniformity, and how many directions they use."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from pydantic import FiniteFloat

from opencse.arrays import Floats, Vectors
from opencse.errors import UserError
from opencse.evaluation import Embedded, ScoredPairs
from opencse.settings import Settings

ELEMENTS = 1 << 22
"""Numbers in a tile: 32 MB of float64."""

SIDE = 1024
"""Rows and columns of a block of cosines: 8 MB of float64."""


def require_vectors(vectors: Vectors, least: int = 1) -> None:
    """Checks that ``vectors`` is a floating-point (n, d) array.

    Raises:
        UserError: for fewer than ``least`` vectors.
    """
    if len(vectors) < least:
        raise UserError(f"{len(vectors)} vector(s) where at least {least} are needed; give more sentences")


def tiles(vectors: Vectors) -> Iterator[slice]:
    """Yields the rows of an (n, d) array in slices of about ``ELEMENTS`` numbers."""
    rows = max(1, ELEMENTS // vectors.shape[1])
    for start in range(0, len(vectors), rows):
        yield slice(start, start + rows)


def unit(vectors: Vectors, rows: slice) -> Floats:
    """Returns these rows of an (n, d) array divided by their Euclidean length, float64; nothing overflows.

    Raises:
        UserError: for a vector of zeros, which has no direction, or with NaN or infinite values.
    """
    wide: Floats = vectors[rows].astype(np.float64)
    largest = np.abs(wide).max(axis=1, keepdims=True)
    for invalid, fault in (
        (~np.isfinite(largest), "holds NaN or infinite values; the model has diverged, or overflows: try float32"),
        (largest == 0, "is all zeros and has no direction; leave its text out"),
    ):
        if invalid.any():
            raise UserError(f"vector {rows.start + int(invalid.argmax())} (from 0) {fault}")
    wide /= largest
    wide /= np.linalg.norm(wide, axis=1, keepdims=True)
    return wide


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

    Example:
        >>> first, second = np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[3.0, 0.0], [1.0, 0.0]])
        >>> alignment(first, second)
        1.0
    """
    require_vectors(first)
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
        UserError: for fewer than 2 vectors, a vector of zeros, or NaN or infinite values.

    Example:
        >>> round(uniformity(np.array([[1.0, 0.0], [-1.0, 0.0]])), 6), round(abs(uniformity(np.ones((3, 2)))), 6)
        (-8.0, 0.0)
    """
    require_vectors(vectors, 2)
    total, count = -math.inf, 0
    for cosines in _pair_cosines(vectors):
        highest = float(cosines.max())
        count += cosines.size
        # ||u - v||^2 = 2 - 2 cos; the highest exponent is taken out, so that a large t does not leave a sum of zeros.
        cosines -= highest
        cosines *= 2 * t
        inner = math.log(float(np.exp(cosines, out=cosines).sum()))
        total = float(np.logaddexp(total, 2 * t * (highest - 1) + inner))
    return total - math.log(count)


def _pair_cosines(vectors: Vectors) -> Iterator[Floats]:
    """Yields the cosines of all pairs i < j of n vectors, each pair once, in blocks of one or two dimensions."""
    for start in range(0, len(vectors), SIDE):
        block = unit(vectors, slice(start, start + SIDE))
        if len(block) > 1:
            yield np.clip((block @ block.T)[np.triu_indices(len(block), 1)], -1.0, 1.0)
        for start_of_other in range(start + SIDE, len(vectors), SIDE):
            yield np.clip(block @ unit(vectors, slice(start_of_other, start_of_other + SIDE)).T, -1.0, 1.0)


def effective_rank(singular: Vectors) -> float:
    r"""Returns the effective rank of a matrix (Roy and Vetterli 2007): its directions, weighted by their size.

    .. math:: \exp\Big(-\sum_k p_k \log p_k\Big), \qquad p_k = \sigma_k \Big/ \sum_j \sigma_j

    As published, of the singular values themselves; a variant of other authors takes their squares and is lower.

    Args:
        singular: (k,) singular values >= 0, in any order and unit, not all 0.

    Returns:
        From 1 (one direction) to k (all equal).

    Example:
        >>> round(effective_rank(np.array([2.0, 2.0, 0.0])), 6), round(effective_rank(np.array([5.0, 0.0])), 6)
        (2.0, 1.0)
    """
    shares = singular[singular > 0] / singular.max()
    shares /= shares.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


LIMIT = 20_000
"""The most vectors of which all pairs are compared; STS-B has fewer sentences."""


class Positives(Settings):
    """The measures of n positive pairs, each side L2-normalised; see ``alignment``."""

    n: int
    alignment: FiniteFloat


class Geometry(Settings):
    """The geometry of n vectors, each L2-normalised.

    Attributes:
        n: vectors.
        dimension: d.
        uniformity: log mean exp(-2 ||u - v||^2) over all pairs of ``uniformity_n`` vectors; lower is more even.
        uniformity_n: vectors whose pairs were taken: n, or fewer, drawn at random, where n is above the limit.
        mean_cosine: over all pairs of the n vectors (anisotropy), exact.
        top_eigenvalue: the largest eigenvalue of W W^T, in [n / d, n].
        singular_values: of W, divided by the largest (SimCSE, Fig. F.1), falling; min(n, d) values.
        effective_rank: exp of the entropy of the singular values (Roy and Vetterli 2007), 1 to min(n, d).
        positives: of positive pairs, if some were given.
    """

    n: int
    dimension: int
    uniformity: FiniteFloat
    uniformity_n: int
    mean_cosine: FiniteFloat
    top_eigenvalue: FiniteFloat
    singular_values: list[FiniteFloat]
    effective_rank: FiniteFloat
    positives: Positives | None = None


def geometry(vectors: Vectors, positives: tuple[Vectors, Vectors] | None = None) -> Geometry:
    r"""Measures one set of vectors; ``alignment``, ``uniformity`` and ``effective_rank`` have their formulas.

    With h the vectors at unit length and W their (n, d) matrix, the mean cosine of all pairs of distinct vectors is the
    anisotropy of Ethayarajh (2019), taken exactly:

    .. math:: \frac{2}{n(n-1)} \sum_{i<j} h_i^\top h_j = \frac{\|\sum_i h_i\|^2 - n}{n(n-1)}

    in [-1/(n-1), 1]: near 0 for directions spread evenly, near 1 for a narrow cone. The singular values of W (SimCSE,
    section 5) are the roots of the eigenvalues of :math:`W^\top W`, without a mean subtracted; those below
    :math:`\sqrt{\max(n, d)\,\epsilon}` of the largest (5e-6 for 100,000 vectors) cannot be distinguished from
    rounding and are 0.

    All measures are exact up to 20,000 vectors. Above, the uniformity is of 20,000 of them, drawn without
    replacement by a separate generator. 100,000 x 768 take some 15 seconds of one core and 100 MB in addition to the
    vectors.

    Args:
        vectors: (n, d), any length.
        positives: (p, d) each: the two sides of positive pairs.

    Raises:
        UserError: for fewer than 2 vectors, no positive pair, a vector of zeros, NaN or infinite values.

    Example:
        >>> shape = geometry(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
        >>> round(shape.mean_cosine, 3), round(shape.effective_rank, 2), shape.positives
        (0.471, 1.97, None)
    """
    require_vectors(vectors, 2)
    n, dimension = vectors.shape
    total, gram = np.zeros(dimension), np.zeros((dimension, dimension))
    for rows in tiles(vectors):
        tile = unit(vectors, rows)
        total += tile.sum(axis=0)
        gram += tile.T @ tile
    eigenvalues: Floats = np.linalg.eigvalsh(gram)[::-1].astype(np.float64)
    eigenvalues[eigenvalues <= eigenvalues[0] * max(n, dimension) * np.finfo(np.float64).eps] = 0.0
    singular = np.sqrt(eigenvalues[:n])
    drawn = np.sort(np.random.default_rng(0).choice(n, size=LIMIT, replace=False)) if n > LIMIT else slice(None)
    return Geometry(
        n=n,
        dimension=dimension,
        uniformity=uniformity(vectors[drawn]),
        uniformity_n=min(n, LIMIT),
        mean_cosine=(float(total @ total) - n) / (n * (n - 1)),
        top_eigenvalue=float(singular[0] ** 2),
        singular_values=(singular / singular[0]).tolist(),
        effective_rank=effective_rank(singular),
        positives=None if positives is None else Positives(n=len(positives[0]), alignment=alignment(*positives)),
    )
