"""Linear maps after any model: whitening, all-but-the-top, and ranks against a corpus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from opencse.arrays import Floats, Vectors
from opencse.errors import UserError
from opencse.numerals import number_of

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder

BLOCK = 4096  # rows mapped at a time, so that float64 copies stay small
NULL = 1e-9
"""A direction with less than this share of the largest variance is dropped: it holds only float32 rounding."""

STRETCHED = 100.0
"""A last dimension that is stretched by more, compared with the first, is worth a warning."""


@dataclass(frozen=True, eq=False)
class LinearMap:
    r"""A map of sentence vectors, :math:`\tilde x = (x - \mu) W`.

    Attributes:
        mean: :math:`\mu`, (d,) float64.
        matrix: W, (d, k) float64.

    Example:
        >>> LinearMap(np.ones(2), np.array([[2.0], [0.0]])).apply(np.array([[3.0, 5.0]])).tolist()
        [[4.0]]
    """

    mean: Floats
    matrix: Floats

    @property
    def dimension(self) -> int:
        """Length of a mapped vector (k)."""
        return int(self.matrix.shape[1])

    def apply(self, vectors: Vectors) -> NDArray[np.float32]:
        """Maps (n, d) -> (n, k) float32, computed in float64."""
        mapped = np.empty((len(vectors), self.dimension), dtype=np.float32)
        for start in range(0, len(vectors), BLOCK):
            block = vectors[start : start + BLOCK].astype(np.float64)
            mapped[start : start + BLOCK] = (block - self.mean) @ self.matrix
        return mapped


@dataclass(frozen=True, eq=False)
class Whitening(LinearMap):
    r"""The map of Su et al. 2021 ("Whitening Sentence Representations", equations 3 to 7 and section 3.3).

    .. math:: \tilde x = (x - \mu) W, \quad W = U \Lambda^{-1/2}, \quad \Sigma = U \Lambda U^\top

    with mean :math:`\mu` and covariance :math:`\Sigma` of the vectors it was fitted on, the columns of U in the
    order of falling variance; the first k of them give the shorter vectors of section 3.3. All is computed in
    float64, and :math:`\Sigma` has the divisor n - 1, as in the authors' code (1 / N in the paper; the cosine is
    the same). The authors' code also divides by the root of variances that are only rounding (LayerNorm
    leaves one such direction in every BERT), so that noise gets the weight of a coordinate; here a direction with
    less than 1e-9 of the largest variance is dropped and ``dropped`` says how many were.

    Attributes:
        mean: (d,) float64.
        matrix: W, (d, k) float64.
        dropped: directions without variance that were left out.

    Example:
        >>> vectors = np.random.default_rng(0).normal(size=(50, 3)) * [1, 10, 100] + 5
        >>> whitened_vectors = Whitening.fit(vectors, dimension=2).apply(vectors)
        >>> bool(np.allclose(np.cov(whitened_vectors.T), np.eye(2), atol=1e-4))
        True
    """

    dropped: int

    @classmethod
    def fit(cls, vectors: Vectors, dimension: int | None = None) -> Self:
        """Fits a whitening on ``vectors``.

        Args:
            vectors: (n, d), finite; of n < d vectors at most n - 1 directions remain.
            dimension: k, the number of directions, of largest variance; None: all that vary.

        Raises:
            UserError: if the vectors vary along fewer than k directions (or none).
        """
        mean, values, directions = principal_axes(vectors)
        (n, d), rank = vectors.shape, len(values)
        count = rank if dimension is None else dimension
        if not 0 < count <= rank:
            raise UserError(
                f"whitening to {dimension or 'any'} dimensions needs vectors that vary along as many directions, but "
                f"these {number_of(n, 'vector')} of {d} dimensions vary along {rank}; give more texts or a smaller "
                "dimension"
            )
        return cls(mean, directions[:, :count] / np.sqrt(values[:count]), d - rank)

    @property
    def stretch(self) -> float:
        """The factor by which the last dimension is stretched more than the first."""
        return float(self._lengths[-1] / self._lengths[0])

    def doubts(self, texts: int) -> list[str]:
        """Says if so few texts were fitted on that the map makes all of them equally similar.

        Args:
            texts: their number n; along n - 1 directions of equal variance their cosines are all -1 / (n - 1).
        """
        if self.dimension < texts - 1:
            return []
        counts = f"with {number_of(self.dimension, 'dimension')} makes these {number_of(texts, 'text')}"
        return [f"warning    whitening {counts} equally similar; fit it on many more texts than dimensions"]

    def within(self, stretch: float) -> int:
        """Counts the dimensions that are stretched at most ``stretch`` times as much as the first."""
        return int((self._lengths <= stretch * self._lengths[0]).sum())

    @property
    def _lengths(self) -> Floats:
        """The factors (k,) that vectors along each direction are multiplied by, rising."""
        lengths: Floats = np.linalg.norm(self.matrix, axis=0)
        return lengths


def principal_axes(vectors: Vectors) -> tuple[Floats, Floats, Floats]:
    """Finds the directions along which vectors vary, in the order of falling variance.

    Args:
        vectors: (n, d), finite.

    Returns:
        The mean (d,), the variances (r,), and the directions (d, r), each with its largest coordinate positive.

    Example:
        >>> mean, variances, axes = principal_axes(np.array([[0.0, 1.0], [4.0, 1.0]]))
        >>> mean.tolist(), variances.tolist(), axes.tolist()
        ([2.0, 1.0], [8.0], [[1.0], [0.0]])
    """
    n, d = vectors.shape
    mean = vectors.mean(axis=0, dtype=np.float64) if n else np.zeros(d)
    values, directions = _variances(vectors, mean) if n and d else (np.zeros(d), np.eye(d))
    rank = min(int((values > NULL * values[0]).sum()), max(n - 1, 0)) if d and values[0] > 0 else 0
    axes = directions[:, :rank]
    # A solver returns either of the two signs; fix it.
    if rank:
        axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(rank)])
    return mean, values[:rank], axes


def _variances(vectors: Vectors, mean: Floats) -> tuple[Floats, Floats]:
    """Returns variances (divisor n - 1), falling, and their directions (d, any); of n < d vectors the first n."""
    n, d = vectors.shape
    if n < d:
        _, stretch, directions = np.linalg.svd(vectors.astype(np.float64) - mean, full_matrices=False)
        return stretch**2 / max(n - 1, 1), directions.T
    covariance = np.zeros((d, d))
    for start in range(0, n, BLOCK):
        centred = vectors[start : start + BLOCK].astype(np.float64) - mean
        covariance += centred.T @ centred
    values, directions = np.linalg.eigh(covariance / max(n - 1, 1))
    return values[::-1], directions[:, ::-1]


def whitened(encoder: SentenceEncoder, whitening: LinearMap) -> SentenceEncoder:
    r"""Copies ``encoder`` with a whitening, or another linear map, as its last layer: a Dense layer, saved like others.

    Its weight is :math:`W^\top`, its bias :math:`-\mu W`, without activation. The encoder must not L2-normalise its
    vectors, because that comes last in every folder, so nothing can come after it.
    """
    import torch

    from opencse.modules.dense import Dense

    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        layer = Dense(encoder.dimension, whitening.dimension, "identity")
        layer.linear.weight.copy_(torch.from_numpy(whitening.matrix.T))
        layer.linear.bias.copy_(torch.from_numpy(-whitening.mean @ whitening.matrix))
    copy = encoder.twin()
    copy.projection = copy.lm_head = None
    copy.dense.append(layer.to(encoder.device))
    return copy.eval()


@dataclass(frozen=True, eq=False)
class AllButTheTop(LinearMap):
    r"""The map of Mu and Viswanath 2018 ("All-but-the-Top", algorithm 1), there for word vectors.

    .. math:: \tilde x = (x - \mu) (I - U_D U_D^\top)

    with mean :math:`\mu` and the D principal directions of largest variance as the columns of :math:`U_D`. Directions
    that all vectors share say little about any one of them. The dimension stays, and the variances of the other
    directions too, unlike a whitening's.

    Attributes:
        mean: (d,) float64.
        matrix: :math:`I - U_D U_D^\top`, (d, d) float64.
        removed: D.

    Example:
        >>> vectors = np.random.default_rng(0).normal(size=(50, 3)) * [1, 10, 100] + 5
        >>> mapped = AllButTheTop.fit(vectors, 1).apply(vectors)
        >>> bool(abs(mapped[:, 2]).max() < 50), mapped.shape
        (True, (50, 3))
    """

    removed: int

    @classmethod
    def fit(cls, vectors: Vectors, remove: int | None = None) -> Self:
        """Fits the map on ``vectors``.

        Args:
            vectors: (n, d).
            remove: D; 0 subtracts the mean alone; None: a hundredth of the dimensions, at least 1, as the paper
                recommends.

        Raises:
            UserError: if that would leave nothing that varies.
        """
        if remove is None:
            remove = max(1, round(vectors.shape[1] / 100))
        mean, variances, axes = principal_axes(vectors)
        if remove >= len(variances):
            raise UserError(
                f"removing {remove} components would leave nothing: these {number_of(len(vectors), 'vector')} of "
                f"{len(mean)} dimensions vary along {len(variances)}; remove fewer, or give more texts"
            )
        top = axes[:, :remove]
        return cls(mean, np.eye(len(mean)) - top @ top.T, remove)


COSINE_SHARE = 0.9
"""Lambda of the authors' script for SNCSE."""
_BLOCK_BYTES = 64 * 2**20


@dataclass(frozen=True, eq=False)
class CorpusRanks:
    r"""The similarity of Seonwoo et al. 2022 (RankEncoder, arXiv:2209.04333) as the cosine of longer vectors.

    A text x has the cosines :math:`s_k = \cos(x, c_k)` with the K texts of a corpus, and their ranks r(x), equal ones
    sharing a mean rank. Spearman's correlation of the cosines of two texts is the cosine of their centred ranks
    :math:`\bar r(x) = r(x) - (K + 1) / 2`. So the vector

    .. math:: f(x) = \left[ \sqrt{\lambda}\, x / |x|,\; \sqrt{1 - \lambda}\, \bar r(x) / |\bar r(x)| \right]

    of d + K dimensions has the cosine :math:`\lambda \cos(x, y) + (1 - \lambda) \rho(x, y)` with another one, which is
    what the authors' code computes for each pair. Its corpus is a hundredth of the texts trained on (10,000).

    Attributes:
        corpus: (K, d) float32, each row of length 1.
        cosine_share: :math:`\lambda`.

    Example:
        >>> corpus = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
        >>> ranks = CorpusRanks.fit(corpus, 0.5)
        >>> first, second = ranks.apply(np.array([[2.0, 0.0], [3.0, 1.0]]))  # cosine .95, the same order of the corpus
        >>> round(float(first @ second), 3)
        0.974
    """

    corpus: NDArray[np.float32]
    cosine_share: float

    @classmethod
    def fit(cls, vectors: Vectors, cosine_share: float | None = None) -> Self:
        """Stores the vectors of a corpus.

        Args:
            vectors: (K, d).
            cosine_share: lambda, from 0 to 1; None: .9.
        """
        return cls(_unit(vectors).astype(np.float32), COSINE_SHARE if cosine_share is None else cosine_share)

    def apply(self, vectors: Vectors) -> NDArray[np.float32]:
        """(n, d) -> (n, d + K), each of length 1 (shorter where a vector is 0, or no text of the corpus is nearer)."""
        from scipy.stats import rankdata  # here, since `opencse static` whitens without scipy

        n, d = vectors.shape
        mapped = np.empty((n, d + len(self.corpus)), dtype=np.float32)
        rows = max(1, _BLOCK_BYTES // (8 * len(self.corpus)))
        for start in range(0, n, rows):
            unit = _unit(vectors[start : start + rows])
            ranks = rankdata(unit.astype(np.float32) @ self.corpus.T, axis=1)
            mapped[start : start + rows, :d] = np.sqrt(self.cosine_share) * unit
            mapped[start : start + rows, d:] = np.sqrt(1 - self.cosine_share) * _unit(
                ranks - (len(self.corpus) + 1) / 2
            )
        return mapped


def _unit(vectors: Vectors) -> NDArray[np.float64]:
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1.0)
