"""Small encoders of texts for tests: of the numbers in a text, and of counts of its words."""

from __future__ import annotations

import hashlib
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


class HashedWords:
    """Encodes texts as counts of their words, hashed into some columns, and records the calls."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.calls: list[list[str]] = []

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.calls.append(list(texts))
        vectors = np.zeros((len(texts), self.width), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in text.split():
                column = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big") % self.width
                vectors[row, column] += 1
        return vectors


def letters(texts: Sequence[str]) -> NDArray[np.float64]:
    """How often each letter occurs; never zero."""
    return np.array([[t.lower().count(c) for c in "abcdefghijklmnopqrstuvwxyz"] for t in texts], np.float64) + 0.1


def lengths(texts: Sequence[str]) -> NDArray[np.float64]:
    """A constant, and the numbers of characters and words."""
    return np.array([[1.0, len(text) / 50, len(text.split()) / 5] for text in texts])
