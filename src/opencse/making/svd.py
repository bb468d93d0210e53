"""The leading singular vectors of a large sparse matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from opencse.progress import Count


def truncated_svd(
    matrix: csr_array,
    rank: int,
    generator: np.random.Generator,
    *,
    extra: int = 32,
    power: int = 3,
    progress: Count | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The first left singular vectors, by random projection (Halko, Martinsson & Tropp 2011, algorithms 4.4 and 5.1).

    Args:
        matrix: (V, V) float32.
        rank: vectors wanted, at most V.
        generator: of the projection.
        extra: more columns than wanted in it, for accuracy.
        power: power iterations, for accuracy where the spectrum falls slowly, as that of words does.
        progress: called with (products done, products in all), but for the last.

    Returns:
        (V, rank) float32 orthonormal columns, and the (rank,) singular values, largest first.
    """
    size = matrix.shape[0]
    basis = generator.standard_normal((size, min(size, rank + extra)), dtype=np.float32)
    for step in range(2 * power):
        basis, _ = np.linalg.qr((matrix.T if step % 2 else matrix) @ basis)
        if progress is not None:
            progress(step + 1, 2 * power)
    left, values, _ = np.linalg.svd(matrix @ basis, full_matrices=False)
    return left[:, :rank], values[:rank]
