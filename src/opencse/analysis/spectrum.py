"""In how many directions do the vectors lie? Singular values, effective rank, shares of variance, rank of C."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opencse.analysis.tiles import Floats, require_vectors, tiles, unit

_ROUNDING = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Moments:
    """Sums over n vectors h at unit length, all that the spectrum needs of them.

    Attributes:
        n: vectors.
        total: sum of h, (d,).
        gram: sum of h h^T, (d, d): W^T W for W the (n, d) matrix of the vectors.
    """

    n: int
    total: Floats
    gram: Floats

    def singular_values(self) -> Floats:
        """See ``singular_values``."""
        return np.sqrt(self._eigenvalues(self.gram)[: self.n])

    def variance_shares(self, first: Iterable[int]) -> dict[int, float] | None:
        """See ``variance_shares``."""
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
        """Of a (d, d) sum of outer products, falling; 0 where they cannot be told from rounding."""
        values: Floats = np.linalg.eigvalsh(gram)[::-1].astype(np.float64)
        values[values <= values[0] * self._rounding] = 0.0
        return values


def moments(vectors: NDArray[np.floating]) -> Moments:
    """The sums over (n, d) vectors, cut to unit length, a tile at a time; n d^2 operations.

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


def singular_values(vectors: NDArray[np.floating]) -> Floats:
    r"""Singular values of W, the (n, d) matrix of the vectors at unit length (SimCSE, section 5 and Fig. F.1).

    .. math:: \sigma_k = \sqrt{\lambda_k(W^\top W)}, \qquad \sum_k \sigma_k^2 = n

    :math:`\sigma_1^2` is the top eigenvalue of :math:`W W^\top`. Fig. F.1 divides by :math:`\sigma_1`. No mean is
    taken off. They come from the (d, d) matrix in float64, so those below :math:`\sqrt{\max(n, d)\,\epsilon}` of the
    largest (5e-6 for 100,000 vectors) cannot be told from rounding and are 0.

    Args:
        vectors: (n, d), any length.

    Returns:
        (min(n, d),), falling.

    Raises:
        UserError: for no vectors, a vector of zeros, or NaN or infinite values.
        ValueError: if the array is not (n, d).
    """
    return moments(vectors).singular_values()


def effective_rank(singular: NDArray[np.floating]) -> float:
    r"""Effective rank of a matrix (Roy and Vetterli 2007): in how many directions it lies, weighted by their size.

    .. math:: \exp\Big(-\sum_k p_k \log p_k\Big), \qquad p_k = \sigma_k \Big/ \sum_j \sigma_j

    As published, of the singular values themselves; a variant of other authors takes their squares and is lower.

    Args:
        singular: (k,) singular values >= 0, in any order and unit, not all 0.

    Returns:
        From 1 (one direction) to k (all alike).

    Raises:
        ValueError: for values below 0, not finite, or none above 0.
    """
    values = np.asarray(singular, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all() or (values < 0).any() or not (values > 0).any():
        raise ValueError("singular values are finite, at least 0, and one is above 0")
    shares = values[values > 0] / values.max()
    shares /= shares.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


def variance_shares(vectors: NDArray[np.floating], first: Iterable[int] = (1,)) -> dict[int, float] | None:
    r"""The share of the variance that lies in the first k principal components, at unit length.

    .. math:: \sum_{i \le k} \lambda_i \Big/ \sum_i \lambda_i, \qquad
              \lambda = \text{eigenvalues of } \sum_i (h_i - \bar h)(h_i - \bar h)^\top

    Here, unlike for the singular values, the mean is taken off: the direction that all vectors share is told by
    ``mean_cosine``.

    Args:
        vectors: (n, d), any length.
        first: the k to tell; those above d are left out.

    Returns:
        Share in [0, 1] by k; None where all vectors have one direction, so that nothing varies.

    Raises:
        UserError: for no vectors, a vector of zeros, or NaN or infinite values.
        ValueError: if the array is not (n, d).
    """
    return moments(vectors).variance_shares(first)


def correlation_rank(first: NDArray[np.floating], second: NDArray[np.floating], *, centre: bool = False) -> int:
    r"""Rank of the correlation matrix of two views' dimensions (SimCSE++, section 4.2).

    .. math:: C_{cd} = \frac{\sum_i z^1_{ic} z^2_{id}}{\sqrt{\sum_i (z^1_{ic})^2} \sqrt{\sum_i (z^2_{id})^2}}

    At most min(N, D): the paper's batch of 64 has 64, so C cannot become the identity of 768 dimensions. Counted are
    the singular values above the largest times max(N, D) times float64's rounding unit, as the Barlow Twins term
    logs them. The paper takes no mean off; Zbontar et al. (2021) do (``centre``). Vectors keep their length here.

    Args:
        first: (N, D) vectors of one view.
        second: (N, D) of the other; the same again for one view with itself.
        centre: take the mean of each dimension off first.

    Returns:
        0 to min(N, D).

    Raises:
        UserError: for no vectors.
        ValueError: if the shapes differ or are not (N, D), or a value is not finite.
    """
    require_vectors(first)
    if first.shape != second.shape:
        raise ValueError(f"two (N, D) arrays of one shape are expected, got {first.shape} and {second.shape}")
    n, dimension = first.shape
    left, right = _Columns.of(first, centre=centre), _Columns.of(second, centre=centre)
    if n <= dimension:
        # The D x D product would have rounding for its other D - N singular values: take the N x N one of the factors.
        whole = slice(0, n)
        one, two = (np.asarray(np.linalg.qr(side.tile(whole).T, mode="r")) for side in (left, right))
        product = one @ two.T
    else:
        product = np.zeros((dimension, dimension))
        for rows in tiles(first):
            product += left.tile(rows).T @ right.tile(rows)
    return int(np.linalg.matrix_rank(product, rtol=max(n, dimension) * _ROUNDING))


@dataclass(frozen=True)
class _Columns:
    """A matrix whose columns are shifted, then scaled to length 1; a column of zeros stays."""

    vectors: NDArray[np.floating]
    shift: Floats
    scale: Floats

    @classmethod
    def of(cls, vectors: NDArray[np.floating], *, centre: bool) -> _Columns:
        shift, squares = np.zeros(vectors.shape[1]), np.zeros(vectors.shape[1])
        if centre:  # about the first row, so that a constant column becomes exactly 0
            start = vectors[0].astype(np.float64)
            for rows in tiles(vectors):
                shift += (vectors[rows] - start).sum(axis=0) / len(vectors)
            shift += start
        for rows in tiles(vectors):
            squares += np.square(vectors[rows] - shift).sum(axis=0)
        if not np.isfinite(squares).all():
            raise ValueError("a correlation of NaN or infinite values is undefined")
        scale = np.divide(1.0, np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0)
        return cls(vectors, shift, scale)

    def tile(self, rows: slice) -> Floats:
        wide: Floats = (self.vectors[rows].astype(np.float64) - self.shift) * self.scale
        return wide
