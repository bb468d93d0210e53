"""Arithmetic on rows of vectors that encoding and search share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError


def unit_rows(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    """(n, d) -> (n, d) float32, L2-normalised; zero rows stay zero, half precision does not overflow."""
    wide = vectors if vectors.dtype in (np.float32, np.float64) else vectors.astype(np.float32)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    return np.asarray(wide / np.maximum(norms, 1e-12), dtype=np.float32)


def as_vectors(
    name: str,
    given: str | Sequence[str] | NDArray[np.floating],
    encode: Callable[[Sequence[str]], NDArray[np.float32]],
) -> NDArray[np.floating]:
    """(n, d) vectors: those given, or of the texts given.

    Args:
        name: of the argument, for messages.
        given: a text, texts, or vectors (n, d) or (d,).
        encode: gives texts their vectors.

    Raises:
        UserError: for arrays of another shape.
        TypeError: for what is neither texts nor an array.
    """
    if not isinstance(given, Iterable):
        raise TypeError(f"{name} is a text, texts or an array of vectors, not {type(given).__name__}")
    if not isinstance(given, np.ndarray):
        return encode([given] if isinstance(given, str) else given)
    if given.ndim not in (1, 2) or given.dtype.kind not in "fiu":
        raise UserError(f"vectors are a (n, d) array of numbers, not {given.dtype} of shape {given.shape}")
    return np.atleast_2d(given)
