"""Keeps the first dimensions of vectors, for models that were trained for it (Matryoshka)."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError

Entry = TypeVar("Entry", bound=np.generic)


def require_dimensions(dimensions: int | None, dimension: int, model: str = "this model") -> None:
    """Refuses to keep fewer than one dimension of a vector, or more than it has.

    Example:
        >>> require_dimensions(64, 256)
        >>> require_dimensions(300, 256)
        Traceback (most recent call last):
        opencse.errors.UserError: dimensions is from 1 to the 256 of this model, not 300

    Args:
        dimensions: how many of the first are kept; None: all.
        dimension: of the vectors.
        model: that makes them, for the message.

    Raises:
        UserError: naming both numbers.
    """
    if dimensions is not None and not 1 <= dimensions <= dimension:
        raise UserError(f"dimensions is from 1 to the {dimension} of {model}, not {dimensions}")


def first_of(vectors: NDArray[Entry], dimensions: int | None) -> NDArray[Entry]:
    """The first dimensions of (n, d) vectors, of which d are there: (n, dimensions); all of them for None.

    They have no unit length any more, so whatever compares by the cosine normalises them afterwards.

    Example:
        >>> first_of(np.array([[1.0, -0.5, 9.0]]), 2).tolist()
        [[1.0, -0.5]]
    """
    return vectors[:, :dimensions]
