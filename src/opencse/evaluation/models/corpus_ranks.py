"""RankEncoder's similarity at test time: a cosine, mixed with how similarly two texts rank a corpus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from opencse.arrays import Vectors
from opencse.errors import UserError

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

        Raises:
            UserError: for fewer than 2 texts, vectors that are not finite, or a share that is none.
        """
        share = COSINE_SHARE if cosine_share is None else cosine_share
        if not 0 <= share <= 1:
            raise UserError(f"the share of the cosine is from 0 to 1, not {share:g}")
        if len(vectors) < 2 or not np.isfinite(vectors).all():
            raise UserError(f"ranks need at least 2 finite vectors of a corpus, not {len(vectors)}; give more texts")
        return cls(_unit(vectors).astype(np.float32), share)

    def apply(self, vectors: Vectors) -> NDArray[np.float32]:
        """(n, d) -> (n, d + K), each of length 1 (shorter where a vector is 0, or no text of the corpus is nearer)."""
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
