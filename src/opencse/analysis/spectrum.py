"""The spectrum of a set of vectors: singular values, effective rank, shares of variance, rank of a correlation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from opencse.analysis.tiles import require_vectors, tiles, unit
from opencse.arrays import Floats, Vectors

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
        ValueError: if the array is not (n, d).
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
        ValueError: if the shapes differ or are not (N, D), or a value is not finite.

    Example:
        >>> vectors = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]])
        >>> correlation_rank(vectors, vectors)
        2
    """
    require_vectors(first)
    if first.shape != second.shape:
        raise ValueError(f"two (N, D) arrays of one shape are expected, got {first.shape} and {second.shape}")
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
    if not np.isfinite(squares).all():
        raise ValueError("a correlation of NaN or infinite values is undefined")
    return np.divide(1.0, np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0)
