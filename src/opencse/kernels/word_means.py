"""Vectors of models that are word vectors alone, in numpy: the mean of the vectors of a text's tokens.

There are two kinds. A table of word vectors w_t gives the mean of its rows, weighted by token where the model says so.
A BERT without layers (opencse-mini) is its embedding layer: h_t = LayerNorm(w_t + p_t), of token and position. With
both centred, c_t = w_t - mean(w_t) and q_t = p_t - mean(p_t) over the d coordinates, the norm needs three numbers per
token,

    r_t = (var(w_t) + var(p_t) + 2 cov(w_t, p_t) + eps)^(-1/2),   mean_t h_t = g (sum_t r_t c_t + sum_t r_t q_t) / n + b

so no row of d numbers is normalised for a token. What is needed of a word is computed for the words that occur, from
a table in 16 or 32 bits that may be memory-mapped. The same as the network's own forward up to rounding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from opencse.arrays import without_warnings
from opencse.text.rust_tokenizer import Ids, padded

_LEAST = 1e-9
"""Smallest sum of weights, as in `opencse.modules.pooling`."""
MOST_FACTORS = 2**24
"""Most words times positions of a BERT whose means are computed here: 64 MiB."""
_MOST_POSITIONS, _MOST_NUMBERS = 2**14, 2**24
"""Positions of a text, and numbers of word vectors (64 MiB), that are gathered at a time."""
_BLOCK = 4_096
"""Rows of a table that are hashed at a time."""
FloatTable = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class EmbeddingNorm:
    """What BERT's embedding layer adds to a word vector before and after its LayerNorm.

    Attributes:
        positions: (P, d).
        token_type: (d,) of the only type of token used.
        weight: (d,) g.
        bias: (d,) b.
        eps: added to the variance.
    """

    positions: NDArray[np.floating]
    token_type: NDArray[np.floating]
    weight: NDArray[np.floating]
    bias: NDArray[np.floating]
    eps: float


@dataclass(frozen=True, eq=False)
class WordMeans:
    """The weights of such a model.

    Attributes:
        words: (V, d) word vectors, float16 or float32.
        norm: of a BERT without layers; None for a table.
        token_weights: (V,) how much each token counts in the mean of a table, from 0 on; None if all count the same.

    Example:
        >>> words = WordMeans(np.array([[1, 0], [0, 1], [3, 3]], dtype=np.float16))
        >>> words.of([np.array([0, 1]), np.array([2])]).tolist()
        [[0.5, 0.5], [3.0, 3.0]]
    """

    words: NDArray[np.floating]
    norm: EmbeddingNorm | None = None
    token_weights: NDArray[np.float32] | None = None

    @property
    def dimension(self) -> int:
        """Number of dimensions of a vector."""
        return int(self.words.shape[1])

    def of(self, rows: Sequence[Ids]) -> FloatTable:
        """(n, d): the vector of each text, of at least one id."""
        unique, word_rows = np.unique(np.concatenate(rows), return_inverse=True)
        lengths = [len(row) for row in rows]
        occurring = self.among(unique, max(lengths))
        return occurring.means(np.split(word_rows, np.cumsum(lengths)[:-1]))

    @without_warnings
    def among(self, unique: NDArray[np.integer], longest: int) -> OccurringWords:
        """Prepares the words that occur in some texts.

        Args:
            unique: (U,) their different ids.
            longest: ids of the longest text.
        """
        words = self.words[unique].astype(np.float32)
        if self.norm is None:
            return OccurringWords(words, None if self.token_weights is None else self.token_weights[unique, None])
        words += self.norm.token_type.astype(np.float32)
        words -= words.mean(axis=1, keepdims=True)
        positions = self.norm.positions[:longest].astype(np.float32)
        positions -= positions.mean(axis=1, keepdims=True)
        spreads = 2 * (words @ positions.T)
        spreads += np.einsum("ud,ud->u", words, words)[:, None]
        spreads += np.einsum("pd,pd->p", positions, positions)
        spreads /= np.float32(self.dimension)
        spreads += np.float32(self.norm.eps)
        return OccurringWords(words, 1 / np.sqrt(spreads), positions, self.norm)

    def hash(self) -> str:
        """SHA-256 of all numbers in float32, 64 hexadecimal digits; the same for a table in 16 bits and its copy.

        It is computed once: weights that change in place are those of a new object.
        """
        return self._digest

    @cached_property
    def _digest(self) -> str:
        digest = hashlib.sha256()
        for name, array in self._arrays():
            digest.update(f"\n{name} {array.shape}\n".encode())
            for start in range(0, len(array), _BLOCK):
                digest.update(np.ascontiguousarray(array[start : start + _BLOCK], dtype="<f4").data)
        digest.update(repr(None if self.norm is None else float(self.norm.eps)).encode())
        return digest.hexdigest()

    def _arrays(self) -> Iterator[tuple[str, NDArray[np.floating]]]:
        yield "words", self.words
        if self.token_weights is not None:
            yield "token_weights", self.token_weights
        if self.norm is not None:
            yield "positions", self.norm.positions
            yield "token_type", self.norm.token_type
            yield "weight", self.norm.weight
            yield "bias", self.norm.bias


@dataclass(frozen=True, eq=False)
class OccurringWords:
    """The words that occur in some texts, prepared to be summed; made by `WordMeans.among`.

    Attributes:
        words: (U, d) float32; centred where there is a norm.
        factors: (U, P) of each word at each position r, or (U, 1) its weight in the mean of a table; None: all 1.
        positions: (P, d) centred position vectors; None for a table.
        norm: of a BERT without layers; None for a table.
    """

    words: FloatTable
    factors: FloatTable | None = None
    positions: FloatTable | None = None
    norm: EmbeddingNorm | None = None

    @without_warnings
    def means(self, rows: Sequence[NDArray[np.integer]]) -> FloatTable:
        """(n, d): the vector of each text; texts of similar length are the fastest.

        At most `_MOST_NUMBERS` word vectors' numbers are gathered at a time, so a text may have millions of tokens.

        Args:
            rows: of each text the rows of its tokens in ``words``, at least one.
        """
        width = min(max(map(len, rows)), _MOST_POSITIONS)
        count = max(1, _MOST_NUMBERS // (width * self.words.shape[1]))
        return np.concatenate([self._means(rows[start : start + count]) for start in range(0, len(rows), count)])

    def _means(self, rows: Sequence[NDArray[np.integer]]) -> FloatTable:
        word_rows, lengths = padded(rows, 0)
        sums = np.zeros((len(rows), self.words.shape[1]), dtype=np.float32)
        weights = np.zeros((len(rows), 1), dtype=np.float32)
        for start in range(0, word_rows.shape[1], _MOST_POSITIONS):
            block = word_rows[:, start : start + _MOST_POSITIONS]
            at = np.arange(start, start + block.shape[1])
            factors = (at < lengths[:, None]).astype(np.float32)
            if self.factors is not None:
                factors *= self.factors[block, at if self.positions is not None else 0]
            sums += np.matmul(factors[:, None, :], self.words.take(block, axis=0))[:, 0]
            weights += factors.sum(axis=1, keepdims=True)
            if self.positions is not None:
                sums += factors @ self.positions[at]
        if self.norm is None:
            return np.asarray(sums / np.maximum(weights, _LEAST), dtype=np.float32)
        sums /= lengths[:, None].astype(np.float32)
        sums *= self.norm.weight.astype(np.float32)
        sums += self.norm.bias.astype(np.float32)
        return sums
