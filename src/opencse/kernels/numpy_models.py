"""Models in numpy: the mean of word vectors, and BERT's forward for a few texts.

Models that are word vectors alone give the mean of the vectors of a text's tokens. There are two kinds. A table of word
vectors w_t gives the mean of its rows, weighted by token where the model says so. A BERT without layers (opencse-mini)
is its embedding layer: h_t = LayerNorm(w_t + p_t), of token and position. With both centred, c_t = w_t - mean(w_t) and
q_t = p_t - mean(p_t) over the d coordinates, the norm needs three numbers per token,

    r_t = (var(w_t) + var(p_t) + 2 cov(w_t, p_t) + eps)^(-1/2),   mean_t h_t = g (sum_t r_t c_t + sum_t r_t q_t) / n + b

so no row of d numbers is normalised for a token. What is needed of a word is computed for the words that occur, from
a table in 16 or 32 bits that may be memory-mapped. The same as the network's own forward up to rounding.

A BERT with layers is computed here because importing torch and transformers takes longer than encoding a few texts. The
tokens of all texts are the rows of one matrix, so that no padding is computed; attention is computed text by text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

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


EMBEDDINGS = (
    "word_embeddings.weight",
    "position_embeddings.weight",
    "token_type_embeddings.weight",
    "LayerNorm.weight",
    "LayerNorm.bias",
)
"""The tensors of BERT's embedding layer."""


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

    @classmethod
    def of_bert(cls, weights: Sequence[NDArray[np.floating]], eps: float) -> WordMeans | None:
        """Those of a BERT without layers, of whose `EMBEDDINGS` these are the weights; None for one that is too large.

        Args:
            weights: in the order of the names.
            eps: of the LayerNorm.
        """
        words, positions, types, weight, bias = weights
        if len(words) * len(positions) > MOST_FACTORS:
            return None
        return cls(words, EmbeddingNorm(positions, types[0], weight, bias, eps))

    @property
    def dimension(self) -> int:
        """Number of dimensions of a vector."""
        return int(self.words.shape[1])

    @property
    def id_count(self) -> int:
        """Number of word vectors."""
        return len(self.words)

    @property
    def nbytes(self) -> int:
        """Bytes of the word vectors."""
        return int(self.words.nbytes)

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


Array = NDArray[Any]
_ERF = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
_ERF_SCALE = 0.3275911
"""The polynomial of Abramowitz and Stegun, 7.1.26: at most 1.5e-7 from erf."""


def erf(x: Array) -> Array:
    """The error function of each number.

    >>> erf(np.array([-1.0, 0.0, 0.5])).round(5).tolist()
    [-0.8427, 0.0, 0.5205]
    """
    size = np.abs(x)
    t = 1 / (1 + _ERF_SCALE * size)
    sum_of_powers = np.zeros_like(x)
    for factor in reversed(_ERF):
        sum_of_powers = (sum_of_powers + factor) * t
    result: Array = np.copysign(1 - sum_of_powers * np.exp(-size * size), x)
    return result


def gelu(x: Array) -> Array:
    """``x`` times the normal distribution function of ``x``."""
    result: Array = 0.5 * x * (1 + erf(x * np.float32(0.5**0.5)))
    return result


def layer_norm(x: Array, weight: Array, bias: Array, eps: float) -> Array:
    """Each row (T, d) with mean 0 and variance 1, times ``weight`` (d,), plus ``bias`` (d,)."""
    centred = x - x.mean(axis=1, keepdims=True)
    variance = np.einsum("td,td->t", centred, centred)[:, None] / x.shape[1]
    result: Array = centred / np.sqrt(variance + np.float32(eps)) * weight + bias
    return result


@dataclass(frozen=True, eq=False)
class NumpyBert:
    """The weights of a BERT by their names in transformers, without the prefix ``bert.``.

    Attributes:
        weights: float32 or float16; may be memory-mapped.
        depth: number of layers.
        heads: of attention.
        eps: added to the variances of the norms.
    """

    weights: Mapping[str, Array]
    depth: int
    heads: int
    eps: float

    @property
    def dimension(self) -> int:
        """Number of dimensions of a token vector."""
        return int(self.weights["embeddings.word_embeddings.weight"].shape[1])

    @property
    def id_count(self) -> int:
        """Number of word vectors."""
        return len(self.weights["embeddings.word_embeddings.weight"])

    @property
    def nbytes(self) -> int:
        """Bytes of all weights."""
        return sum(int(array.nbytes) for array in self.weights.values())

    @without_warnings
    def states(self, rows: Sequence[Ids], layers: Sequence[int]) -> list[Array]:
        """(T, hidden) of each of ``layers`` for the tokens of all texts, one text after the other.

        Args:
            rows: the ids of each text, at least one.
            layers: from 0 (the embeddings' output) to the depth, ascending.
        """
        lengths = [len(row) for row in rows]
        x = self._embedded(np.concatenate(rows), np.concatenate([np.arange(length) for length in lengths]))
        states = {0: x}
        for layer in range(self.depth):
            x = self._layer(f"encoder.layer.{layer}.", x, np.cumsum(lengths)[:-1])
            states[layer + 1] = x
        return [states[layer] for layer in layers]

    def _of(self, name: str) -> Array:
        return self.weights[name].astype(np.float32, copy=False)

    def _linear(self, name: str, x: Array) -> Array:
        result: Array = x @ self._of(f"{name}.weight").T + self._of(f"{name}.bias")
        return result

    def _norm(self, name: str, x: Array) -> Array:
        return layer_norm(x, self._of(f"{name}.weight"), self._of(f"{name}.bias"), self.eps)

    def _embedded(self, ids: Array, positions: Array) -> Array:
        words = self.weights["embeddings.word_embeddings.weight"][ids].astype(np.float32)
        words += self.weights["embeddings.position_embeddings.weight"][positions].astype(np.float32)
        words += self.weights["embeddings.token_type_embeddings.weight"][0].astype(np.float32)
        return self._norm("embeddings.LayerNorm", words)

    def _layer(self, name: str, x: Array, borders: Array) -> Array:
        query, key, value = (
            np.split(self._linear(f"{name}attention.self.{part}", x), borders) for part in ("query", "key", "value")
        )
        mixed = np.concatenate([self._attention(*one) for one in zip(query, key, value, strict=True)])
        x = self._norm(f"{name}attention.output.LayerNorm", x + self._linear(f"{name}attention.output.dense", mixed))
        inside = gelu(self._linear(f"{name}intermediate.dense", x))
        return self._norm(f"{name}output.LayerNorm", x + self._linear(f"{name}output.dense", inside))

    def _attention(self, query: Array, key: Array, value: Array) -> Array:
        """The attention of one text, (t, hidden) each."""
        by_head = [part.reshape(len(part), self.heads, -1).swapaxes(0, 1) for part in (query, key, value)]
        q, k, v = by_head
        scores = q @ k.swapaxes(1, 2) / np.float32(q.shape[2] ** 0.5)
        scores = np.exp(scores - scores.max(axis=2, keepdims=True))
        scores /= scores.sum(axis=2, keepdims=True)
        result: Array = (scores @ v).swapaxes(0, 1).reshape(query.shape)
        return result
