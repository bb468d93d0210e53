"""The geometry of a set of vectors: alignment, uniformity, and how many directions they use."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

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


def pair_cosines(vectors: Vectors) -> Iterator[Floats]:
    """Yields the cosines of all pairs i < j of n vectors, each pair once, in blocks of one or two dimensions."""
    for start in range(0, len(vectors), SIDE):
        block = unit(vectors, slice(start, start + SIDE))
        if len(block) > 1:
            yield _within_one((block @ block.T)[np.triu_indices(len(block), 1)])
        for start_of_other in range(start + SIDE, len(vectors), SIDE):
            yield _within_one(block @ unit(vectors, slice(start_of_other, start_of_other + SIDE)).T)


def _within_one(cosines: Floats) -> Floats:
    return np.clip(cosines, -1.0, 1.0, out=cosines)


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


def all_pairs(vectors: Vectors, t: float = 2.0) -> tuple[float, float]:
    """Computes ``uniformity`` and the lowest cosine over all pairs i < j; n^2 d operations, in some 50 MB of memory."""
    require_vectors(vectors, 2)
    total, least, count = -math.inf, math.inf, 0
    for cosines in pair_cosines(vectors):
        highest = float(cosines.max())
        least, count = min(least, float(cosines.min())), count + cosines.size
        # ||u - v||^2 = 2 - 2 cos; the highest exponent is taken out, so that a large t does not leave a sum of zeros.
        cosines -= highest
        cosines *= 2 * t
        inner = math.log(float(np.exp(cosines, out=cosines).sum()))
        total = float(np.logaddexp(total, 2 * t * (highest - 1) + inner))
    return total - math.log(count), least


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
    return all_pairs(vectors, t)[0]


_ROUNDING = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Moments:
    """Sums over n L2-normalised vectors h, from which the spectrum is computed.

    Attributes:
        n: vectors.
        total: sum of h, (d,).
        gram: sum of h h^T, (d, d): W^T W for W the (n, d) matrix of the vectors.
    """

    n: int
    total: Floats
    gram: Floats

    def sum_of_gram(self) -> float:
        r"""Sum of all elements of W W^T (SimCSE, section 5), in [0, n^2], exact.

        .. math:: \text{Sum}(W W^\top) = \sum_{i} \sum_{j} h_i^\top h_j = \Big\|\sum_i h_i\Big\|^2

        The contrastive objective minimises an upper bound of it (eq. 7). It is itself an upper bound of the top
        eigenvalue of W W^T where no cosine is negative (Merikoski 1984); 1/n of it is always a lower bound.
        """
        return float(self.total @ self.total)

    def mean_cosine(self) -> float:
        r"""Mean cosine of all pairs of distinct vectors: the anisotropy of Ethayarajh (2019), taken exactly.

        .. math:: \frac{2}{n(n-1)} \sum_{i<j} h_i^\top h_j = \frac{\text{Sum}(W W^\top) - n}{n(n-1)}

        In [-1/(n-1), 1], for at least 2 vectors; near 0 for directions spread evenly, near 1 for a narrow cone.
        """
        return (self.sum_of_gram() - self.n) / (self.n * (self.n - 1))

    def singular_values(self) -> Floats:
        r"""Singular values (min(n, d),) of W, falling (SimCSE, section 5 and Fig. F.1, which divides by the largest).

        .. math:: \sigma_k = \sqrt{\lambda_k(W^\top W)}, \qquad \sum_k \sigma_k^2 = n

        :math:`\sigma_1^2` is the top eigenvalue of :math:`W W^\top`. No mean is subtracted. They come from the (d, d)
        matrix in float64, so those below :math:`\sqrt{\max(n, d)\,\epsilon}` of the largest (5e-6 for 100,000
        vectors) cannot be distinguished from rounding and are 0.
        """
        return np.sqrt(self._eigenvalues(self.gram)[: self.n])

    def variance_shares(self, first: Iterable[int]) -> dict[int, float] | None:
        r"""The share of the variance in the first k principal components, by k; those above d are left out.

        .. math:: \sum_{i \le k} \lambda_i \Big/ \sum_i \lambda_i, \qquad
                  \lambda = \text{eigenvalues of } \sum_i (h_i - \bar h)(h_i - \bar h)^\top

        Here, unlike for the singular values, the mean is subtracted: ``mean_cosine`` measures the direction that all
        vectors share. None where all vectors have one direction, so that nothing varies.
        """
        centred = self.gram - np.outer(self.total, self.total) / self.n
        if np.trace(centred) <= self.n * self._rounding:
            return None
        values = self._eigenvalues(centred)
        shares = values.cumsum() / values.sum()
        return {k: float(shares[k - 1]) for k in first if 1 <= k <= len(shares)}

    @property
    def _rounding(self) -> float:
        return max(self.n, len(self.total)) * _ROUNDING

    def _eigenvalues(self, gram: Floats) -> Floats:
        """Eigenvalues of a (d, d) sum of outer products, falling; 0 where they are not above rounding."""
        values: Floats = np.linalg.eigvalsh(gram)[::-1].astype(np.float64)
        values[values <= values[0] * self._rounding] = 0.0
        return values


def moments(vectors: Vectors) -> Moments:
    """Computes the sums over (n, d) vectors of any length, one tile at a time; n d^2 operations.

    Raises:
        UserError: for no vectors, a vector of zeros, or NaN or infinite values.
    """
    require_vectors(vectors)
    dimension = vectors.shape[1]
    total, gram = np.zeros(dimension), np.zeros((dimension, dimension))
    for rows in tiles(vectors):
        tile = unit(vectors, rows)
        total += tile.sum(axis=0)
        gram += tile.T @ tile
    return Moments(len(vectors), total, gram)


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


def correlation_rank(first: Vectors, second: Vectors) -> int:
    r"""Returns the rank of the correlation matrix of two views' dimensions (SimCSE++, section 4.2).

    .. math:: C_{cd} = \frac{\sum_i z^1_{ic} z^2_{id}}{\sqrt{\sum_i (z^1_{ic})^2} \sqrt{\sum_i (z^2_{id})^2}}

    At most min(N, D): the paper's batch of 64 has 64, so C cannot become the identity of 768 dimensions. Counted are
    the singular values above the largest times max(N, D) times float64's rounding unit, as the Barlow Twins term
    logs them. The paper subtracts no mean; Zbontar et al. (2021) do. Vectors keep their length here.

    Args:
        first: (N, D) vectors of one view.
        second: (N, D) of the other; the same again for one view with itself.

    Returns:
        0 to min(N, D).

    Raises:
        UserError: for no vectors.

    Example:
        >>> vectors = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]])
        >>> correlation_rank(vectors, vectors)
        2
    """
    require_vectors(first)
    n, dimension = first.shape
    scales = _column_scale(first), _column_scale(second)

    def views(rows: slice) -> tuple[Floats, Floats]:
        return first[rows].astype(np.float64) * scales[0], second[rows].astype(np.float64) * scales[1]

    if n <= dimension:
        # The D x D product would have rounding for its other D - N singular values: take the N x N one of the factors.
        one, two = (np.asarray(np.linalg.qr(side.T, mode="r")) for side in views(slice(0, n)))
        product = one @ two.T
    else:
        product = np.zeros((dimension, dimension))
        for rows in tiles(first):
            of_first, of_second = views(rows)
            product += of_first.T @ of_second
    return int(np.linalg.matrix_rank(product, rtol=max(n, dimension) * _ROUNDING))


def _column_scale(vectors: Vectors) -> Floats:
    """Returns the factors (D,) that give each column length 1; a column of zeros stays."""
    squares = np.zeros(vectors.shape[1])
    for rows in tiles(vectors):
        squares += np.square(vectors[rows].astype(np.float64)).sum(axis=0)
    return np.divide(1.0, np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0)


LIMIT = 20_000
"""The most vectors of which all pairs are compared; STS-B has fewer sentences."""

FIRST = (1, 3, 10, 30, 100)
"""Counts of principal components whose share of the variance is recorded."""


class Positives(Settings):
    """Measures of the positive pairs.

    Attributes:
        n: pairs.
        alignment: mean squared distance of the two sides at unit length, in [0, 4]; lower is nearer.
        correlation_rank: rank of the correlation matrix of the two sides' dimensions, at most min(n, d).
    """

    n: int
    alignment: FiniteFloat
    correlation_rank: int


class Geometry(Settings):
    """The geometry of n vectors, each L2-normalised.

    Attributes:
        n: vectors.
        dimension: d.
        uniformity: log mean exp(-t ||u - v||^2) over all pairs of ``uniformity_n`` vectors; lower is more even.
        t: of the uniformity.
        uniformity_n: vectors whose pairs were taken: n, or fewer, drawn at random, where n is above the limit.
        least_cosine: the lowest cosine of those pairs.
        seed: of that draw.
        mean_cosine: over all pairs of the n vectors (anisotropy), exact.
        sum_gram: sum of all elements of W W^T (SimCSE, section 5), exact. Above ``top_eigenvalue`` if no cosine is
            negative; ``sum_gram / n`` is never above it.
        top_eigenvalue: the largest eigenvalue of W W^T, in [n / d, n].
        singular_values: of W, divided by the largest (SimCSE, Fig. F.1), falling; min(n, d) values.
        effective_rank: exp of the entropy of the singular values (Roy and Vetterli 2007), 1 to min(n, d).
        variance_first: share of the variance about the mean in the first k principal components, by k; None where
            all vectors have one direction.
        positives: of positive pairs, if some were given.
    """

    n: int
    dimension: int
    uniformity: FiniteFloat
    t: FiniteFloat
    uniformity_n: int
    least_cosine: FiniteFloat
    seed: int
    mean_cosine: FiniteFloat
    sum_gram: FiniteFloat
    top_eigenvalue: FiniteFloat
    singular_values: list[FiniteFloat]
    effective_rank: FiniteFloat
    variance_first: dict[int, FiniteFloat] | None
    positives: Positives | None = None


def geometry(
    vectors: Vectors,
    positives: tuple[Vectors, Vectors] | None = None,
    *,
    t: float = 2.0,
    first: Sequence[int] = FIRST,
    limit: int = LIMIT,
    seed: int = 0,
) -> Geometry:
    """Measures one set of vectors; ``alignment``, ``uniformity`` and ``Moments`` have the formulas.

    All measures are exact up to ``limit`` vectors. Above, the uniformity and the lowest cosine are those of ``limit``
    vectors, drawn without replacement by a separate generator; the record has their number. 100,000 x 768 take some 15
    seconds of one core and 100 MB in addition to the vectors.

    Args:
        vectors: (n, d), any length.
        positives: (p, d) each: the two sides of positive pairs.
        t: of the uniformity.
        first: counts of principal components whose share of the variance is recorded; counts above d are left out.
        limit: the most vectors of which all pairs are compared.
        seed: of the draw.

    Raises:
        UserError: for fewer than 2 vectors, no positive pair, a vector of zeros, NaN or infinite values, t not above
            0, or a limit below 2.

    Example:
        >>> shape = geometry(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
        >>> round(shape.mean_cosine, 3), round(shape.effective_rank, 2), shape.positives
        (0.471, 1.97, None)
    """
    require_vectors(vectors, 2)
    if limit < 2:
        raise UserError(f"limit is the number of vectors whose pairs are taken, at least 2, not {limit}")
    of_positives = None
    if positives is not None:
        of_positives = Positives(
            n=len(positives[0]), alignment=alignment(*positives), correlation_rank=correlation_rank(*positives)
        )
    sums = moments(vectors)
    n, singular = sums.n, sums.singular_values()
    sample = (
        vectors if n <= limit else vectors[np.sort(np.random.default_rng(seed).choice(n, size=limit, replace=False))]
    )
    uniform, least = all_pairs(sample, t)
    return Geometry(
        n=n,
        dimension=vectors.shape[1],
        uniformity=uniform,
        t=t,
        uniformity_n=len(sample),
        least_cosine=least,
        seed=seed,
        mean_cosine=sums.mean_cosine(),
        sum_gram=sums.sum_of_gram(),
        top_eigenvalue=float(singular[0] ** 2),
        singular_values=(singular / singular[0]).tolist(),
        effective_rank=effective_rank(singular),
        variance_first=sums.variance_shares(first),
        positives=of_positives,
    )
