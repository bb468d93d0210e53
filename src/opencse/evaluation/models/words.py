"""Bags of words, and averages of word vectors read from text files of GloVe, word2vec and fastText."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from opencse.environment import require_packages
from opencse.errors import UserError, reason
from opencse.numerals import is_number, number_of
from opencse.progress import Count, uncounted
from opencse.text.files.lines import read_lines

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

    Example:
        >>> vectors = BagOfWords().encode(["a cat sleeps", "a cat", "the sun"])
        >>> vectors.shape, float(vectors[0] @ vectors[1]), float(vectors[0] @ vectors[2])
        ((3, 4096), 2.0, 0.0)
    """

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns (n, COLUMNS) float32; a text without words is the zero vector."""
        column_of: dict[str, tuple[int, int]] = {}
        vectors = np.zeros((len(texts), COLUMNS), dtype=np.float32)
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
        return (number >> 1) % COLUMNS, 1 if number & 1 else -1


BLOCK = 4096  # texts averaged at a time


@dataclass(frozen=True)
class Coverage:
    """How many words of some texts have a vector.

    Attributes:
        texts: their number.
        empty: texts without a single known word; their vector is zero.
        words: running words (white-space tokens).
        unknown: running words without a vector.
    """

    texts: int
    empty: int
    words: int
    unknown: int

    @property
    def unknown_rate(self) -> float:
        """Share of the running words without a vector, 0 to 1; 0 where there are no words."""
        return self.unknown / self.words if self.words else 0.0

    def __str__(self) -> str:
        return (
            f"{100 * self.unknown_rate:.2f}% of {self.words:,} words unknown, "
            f"{self.empty:,} of {self.texts:,} texts without a known word"
        )


class WordVectors:
    r"""Encodes a text as the mean of its known words' vectors (SimCSE, Table 5: "GloVe embeddings (avg.)").

    .. math:: s = \frac1{|K|} \sum_{t \in K} v_t, \quad K = \text{the text's running words that have a vector}

    A word is a white-space token, as written or else lower-cased; a word that has no vector either way is left
    out, and a text without a known word is the zero vector.

    SentEval's own script for bags of words averages likewise, but does not try the lower-cased word.

    Attributes:
        words: row of each word.
        vectors: (V, d) float32.

    Example:
        >>> vectors = WordVectors({"cat": 0, "dog": 1}, np.array([[1, 0], [0, 1]], dtype=np.float32))
        >>> vectors.encode(["Cat dog", "bird"]).tolist()
        [[0.5, 0.5], [0.0, 0.0]]
    """

    def __init__(self, words: dict[str, int], vectors: NDArray[np.float32]) -> None:
        """``words``: the row of each word in ``vectors``, (V, d)."""
        self.words = words
        self.vectors = vectors

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Reads vectors from lines of ``word v1 v2 ... vd``, with or without a header ``count d``.

        The file may be compressed (``.gz``, ``.xz``, ``.bz2``).

        Of a word that occurs twice the first vector is used. A word with spaces inside (a handful in GloVe's largest
        file) is skipped, since no white-space token equals it.

        Args:
            path: the file; fields are separated by one space or tab.

        Raises:
            UserError: naming the file, the line and the fix: a wrong number of values, a value that is not a finite
                number, a header that promises another number of vectors, no vector at all.
        """
        require_packages("a file of word vectors", "train", "scipy")
        path = Path(path)
        words: dict[str, int] = {}
        values = array("f")
        size, promised, read = 0, None, 0
        for number, line in read_lines(path):
            if not line.strip():
                continue
            fields = line.replace("\t", " ").rstrip(" ").split(" ")
            if number == 1 and len(fields) == 2 and all(field.isdecimal() for field in fields):
                promised, size = int(fields[0]), int(fields[1])
                continue
            read += 1
            size = size or len(fields) - 1
            word = _add(fields, size, values, path, number)
            if word is None or word in words:
                del values[len(words) * size :]
            else:
                words[word] = len(words)
        if not words:
            raise UserError(f"{path}: holds no word vector; lines of a word and its values are expected")
        if promised is not None and read != promised:
            raise UserError(
                f"{path}: its first line promises {number_of(promised, 'vector')}, but {read:,} follow; fetch the "
                "file again"
            )
        return cls(words, np.frombuffer(values, dtype=np.float32).reshape(len(words), size))

    @property
    def dimension(self) -> int:
        """Length of a vector (d)."""
        return int(self.vectors.shape[1])

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns the mean of each text's word vectors: (n, d) float32."""
        return self.encode_and_count(texts)[0]

    def encode_and_count(
        self, texts: Sequence[str], progress: Count = uncounted
    ) -> tuple[NDArray[np.float32], Coverage]:
        """Encodes texts, and counts the words that have a vector.

        Args:
            texts: n texts.
            progress: called after each block with (texts done, texts in all).
        """
        from scipy.sparse import csr_array

        means = np.zeros((len(texts), self.dimension), dtype=np.float32)
        words = empty = known = 0
        for start in range(0, len(texts), BLOCK):
            rows: list[int] = []
            ends = [0]
            for text in texts[start : start + BLOCK]:
                tokens = text.split()
                words += len(tokens)
                rows.extend(self._rows(tokens))
                ends.append(len(rows))
            counts = np.diff(ends)
            shares = np.repeat(1 / np.maximum(counts, 1), counts).astype(np.float32)
            averaging = csr_array((shares, np.array(rows, np.int64), ends), shape=(len(counts), len(self.vectors)))
            means[start : start + BLOCK] = averaging @ self.vectors
            empty += int((counts == 0).sum())
            known += len(rows)
            progress(start + len(counts), len(texts))
        return means, Coverage(len(texts), empty, words, words - known)

    def _rows(self, tokens: list[str]) -> Iterator[int]:
        for token in tokens:
            row = self.words.get(token, self.words.get(token.lower()))
            if row is not None:
                yield row


def _add(fields: list[str], size: int, values: array[float], path: Path, number: int) -> str | None:
    """Appends the last ``size`` fields to ``values``; returns the word, None for one with spaces inside (or empty)."""
    extra = fields[1 : len(fields) - size]
    if size < 1 or len(fields) <= size or any(is_number(field) for field in extra):
        raise UserError(
            f"{path}, line {number}: {len(fields) - 1} values where {size or 'some'} are expected; "
            "each line is a word and its values, one space between them"
        )
    start = len(values)
    try:
        values.extend(map(float, fields[-size:]))
    except ValueError as error:  # which names the value
        raise UserError(f"{path}, line {number}: {reason(error)}; correct the line or drop it") from None
    if not np.isfinite(np.frombuffer(values[start:], dtype=np.float32)).all():
        raise UserError(f"{path}, line {number}: a value is not finite as float32; correct the line or drop it")
    return None if extra or not fields[0] else fields[0]
