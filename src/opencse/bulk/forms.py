"""Forms in which vectors are written: all or the first dimensions, in float32, float16, int8 or bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from opencse.errors import require_known
from opencse.modules.similarity import first_of, require_dimensions, unit_rows

Numbers = Literal["float32", "float16", "int8", "binary"]
NUMBERS: tuple[str, ...] = get_args(Numbers)
_LARGEST = 127


@dataclass(frozen=True)
class Form:
    """The form in which vectors are written: type of the numbers, dimensions, normalisation.

    Example:
        >>> form = Form("int8", dimensions=2)
        >>> vectors = np.array([[1.0, -0.5, 9.0]], dtype=np.float32)
        >>> form.of(vectors).tolist()
        [[127, -64]]
        >>> Form("binary").of(vectors).tolist()  # bits 101, filled with zeros to a byte
        [[160]]

    Attributes:
        numbers: ``float32``; ``float16``; ``int8``: round(127 v / max|v|), scaled by each vector's largest
            number, which keeps cosines and not lengths; ``binary``: one bit per dimension, 1 where it is above 0, eight
            in a byte (`numpy.packbits`), to be compared by the number of bits that differ.
        dimensions: only the first ones are kept; None: all.
        normalize: L2-normalise, after reducing the dimensions.
    """

    numbers: Numbers = "float32"
    dimensions: int | None = None
    normalize: bool = False

    def require(self, dimension: int) -> None:
        """Refuses a form that vectors with ``dimension`` dimensions cannot have."""
        require_known(self.numbers, NUMBERS, "kind of numbers")
        require_dimensions(self.dimensions, dimension)

    @property
    def stored(self) -> np.dtype[Any]:
        """The type of the numbers on disk."""
        return np.dtype({"float32": "<f4", "float16": "<f2", "int8": "i1", "binary": "u1"}[self.numbers])

    def kept_dimensions(self, dimension: int) -> int:
        """Number of dimensions that are written of a vector with ``dimension`` dimensions."""
        return self.dimensions or dimension

    def width(self, dimension: int) -> int:
        """Number of values on the disk for a vector with ``dimension`` dimensions."""
        dimensions = self.kept_dimensions(dimension)
        return -(-dimensions // 8) if self.numbers == "binary" else dimensions

    def of(self, vectors: NDArray[np.float32]) -> NDArray[Any]:
        """Converts (n, dimension) to (n, width), as written; values too large for float16 become infinite."""
        reduced = first_of(vectors, self.dimensions)
        if self.normalize:
            reduced = unit_rows(reduced)
        if self.numbers == "binary":
            return np.packbits(reduced > 0, axis=1)
        if self.numbers == "int8":
            largest = np.abs(reduced).max(axis=1, keepdims=True)
            with np.errstate(invalid="ignore"):
                return np.rint(reduced * (_LARGEST / np.where(largest > 0, largest, 1))).astype(np.int8)
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(reduced, dtype=self.stored)

    def restored(self, written: NDArray[Any], dimension: int) -> NDArray[np.float32]:
        """Converts written vectors back to float32, with the cosines of the written ones; bits become -1 and 1."""
        if self.numbers == "binary":
            bits = np.unpackbits(written, axis=1, count=self.kept_dimensions(dimension))
            return 2 * bits.astype(np.float32) - 1
        return np.asarray(written, dtype=np.float32)


def first_wrong(written: NDArray[Any]) -> int | None:
    """The first row of written vectors that is not finite; None if all are."""
    if written.dtype.kind != "f":
        return None
    wrong = np.flatnonzero(~np.isfinite(written).all(axis=1))
    return int(wrong[0]) if len(wrong) else None
