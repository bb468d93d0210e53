"""Arithmetic on rows of vectors that encoding and search share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def unit_rows(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    """(n, d) -> (n, d) float32, L2-normalised; zero rows stay zero, half precision does not overflow."""
    wide = vectors if vectors.dtype in (np.float32, np.float64) else vectors.astype(np.float32)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    return np.asarray(wide / np.maximum(norms, 1e-12), dtype=np.float32)
