"""BERT's forward in numpy, for a few texts: importing torch and transformers takes longer than encoding them.

The tokens of all texts are the rows of one matrix, so that no padding is computed; attention is computed text by text.
The same function of the same weights as transformers' `BertModel` in evaluation mode, up to rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opencse.arrays import without_warnings
from opencse.text.rust_tokenizer import Ids

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
    def hidden(self) -> int:
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
