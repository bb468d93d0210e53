"""L2-normalised vectors in float64, one tile of rows at a time, so that no full copy is made."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opencse.arrays import Floats, Vectors
from opencse.errors import UserError

ELEMENTS = 1 << 22
"""Numbers in a tile: 32 MB of float64."""

SIDE = 1024
"""Rows and columns of a block of cosines: 8 MB of float64."""


def require_vectors(vectors: Vectors, least: int = 1) -> None:
    """Checks that ``vectors`` is a floating-point (n, d) array.

    Raises:
        UserError: for fewer than ``least`` vectors.
        ValueError: for another shape or type.
    """
    if vectors.ndim != 2 or not vectors.shape[1] or not np.issubdtype(vectors.dtype, np.floating):
        raise ValueError(f"floating-point (n, d) vectors are expected, got {vectors.dtype} of shape {vectors.shape}")
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
