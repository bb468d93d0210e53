"""Texts that hold their own vectors, and what encodes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def numbers(texts: Sequence[str]) -> NDArray[np.float64]:
    """A vector for each text that holds one: its numbers."""
    return np.array([[float(part) for part in text.split()] for text in texts])


class Numbers:
    """An encoder of such texts."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """See `numbers`."""
        return numbers(texts)
