"""Names for the types of NumPy arrays that the package passes around, and how it computes with them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""Numbers in double precision, of any shape."""
Integers = NDArray[np.int64]
"""Whole numbers, of any shape."""
Flags = NDArray[np.bool_]
"""True or false, of any shape."""
Vectors = NDArray[np.floating]
"""(n, d) vectors, one in each row, in any precision."""
Embeddings = NDArray[np.float32]
"""(n, d) vectors as an encoder returns them, in single precision."""

without_warnings = np.errstate(divide="ignore", invalid="ignore", over="ignore")
"""Decorates functions that compute vectors: `opencse.encoder.text_encoder` refuses NaN and infinity in one line of
its own, instead of numpy's warnings."""
