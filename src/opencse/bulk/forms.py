"""What a vector is written as: all dimensions or the first ones, in float32, float16, int8 or bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError, require_known
from opencse.modules.rows import unit_rows

Numbers = Literal["float32", "float16", "int8", "binary"]
NUMBERS: tuple[str, ...] = get_args(Numbers)
_LARGEST = 127


@dataclass(frozen=True)
class Form:
    """How vectors are written.

    Attributes:
        numbers: ``float32``; ``float16``; ``int8``: round(127 v / max|v|), each vector by its own largest number, so
            that cosines stay and lengths do not; ``binary``: a bit for each dimension, 1 where it is above 0, eight to
            a byte (`numpy.packbits`), to be compared by how many bits differ.
        dimensions: only the first ones are kept; None: all.
        normalize: L2-normalise, after dimensions were left out.
    """

    numbers: Numbers = "float32"
    dimensions: int | None = None
    normalize: bool = False

    def require(self, dimension: int) -> None:
        """Refuses what cannot be made of vectors of ``dimension`` numbers."""
        require_known(self.numbers, NUMBERS, "kind of numbers")
        if self.dimensions is not None and not 1 <= self.dimensions <= dimension:
            raise UserError(f"dimensions is from 1 to the {dimension} of this model, not {self.dimensions}")

    @property
    def stored(self) -> np.dtype[Any]:
        """The type of the numbers on disk."""
        return np.dtype({"float32": "<f4", "float16": "<f2", "int8": "i1", "binary": "u1"}[self.numbers])

    def kept(self, dimension: int) -> int:
        """Dimensions that are left of a vector of ``dimension``."""
        return self.dimensions or dimension

    def width(self, dimension: int) -> int:
        """Numbers on disk of a vector of ``dimension``."""
        kept = self.kept(dimension)
        return -(-kept // 8) if self.numbers == "binary" else kept

    def of(self, vectors: NDArray[np.float32]) -> NDArray[Any]:
        """(n, dimension) -> (n, width) as they are written; what does not fit into float16 becomes infinite."""
        kept = vectors[:, : self.dimensions]
        if self.normalize:
            kept = unit_rows(kept)
        if self.numbers == "binary":
            return np.packbits(kept > 0, axis=1)
        if self.numbers == "int8":
            largest = np.abs(kept).max(axis=1, keepdims=True)
            with np.errstate(invalid="ignore"):
                return np.rint(kept * (_LARGEST / np.where(largest > 0, largest, 1))).astype(np.int8)
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(kept, dtype=self.stored)

    def restored(self, written: NDArray[Any], dimension: int) -> NDArray[np.float32]:
        """Written vectors as float32 whose cosines are those of the written ones; bits become -1 and 1."""
        if self.numbers == "binary":
            bits = np.unpackbits(written, axis=1, count=self.kept(dimension))
            return 2 * bits.astype(np.float32) - 1
        return np.asarray(written, dtype=np.float32)


def first_wrong(written: NDArray[Any]) -> int | None:
    """The first row of finite vectors, as they are written, that is not finite any more; None if there is none."""
    if written.dtype.kind != "f":
        return None
    wrong = np.flatnonzero(~np.isfinite(written).all(axis=1))
    return int(wrong[0]) if len(wrong) else None
