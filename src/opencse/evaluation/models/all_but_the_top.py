"""All-but-the-top: sentence vectors without their mean and their dominant principal components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from opencse.arrays import Vectors
from opencse.errors import UserError
from opencse.evaluation.models.whitening import LinearMap, principal_axes
from opencse.numerals import number_of


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
            UserError: if that would leave nothing that varies, or the vectors are not finite.
            ValueError: if they are not (n, d).
        """
        if vectors.ndim == 2 and remove is None:
            remove = max(1, round(vectors.shape[1] / 100))
        mean, variances, axes = principal_axes(vectors, "all-but-the-top")
        count = remove or 0
        if not 0 <= count < len(variances):
            raise UserError(
                f"removing {count} components would leave nothing: these {number_of(len(vectors), 'vector')} of "
                f"{len(mean)} dimensions vary along {len(variances)}; remove fewer, or give more texts"
            )
        top = axes[:, :count]
        return cls(mean, np.eye(len(mean)) - top @ top.T, count)
