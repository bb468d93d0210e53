"""Encodes each text only once, for all layers, dimensions and suites that are scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from opencse.arrays import Vectors
from opencse.errors import UserError
from opencse.evaluation.embedding import ByLayer, EmbeddingModel, Encode, Searching
from opencse.modules.prompts import Role
from opencse.modules.similarity import first_of, require_dimensions

NO_LAYERS = "{}: has no layers to choose from; only an encoder of transformers' has"
_TOGETHER = 2 * 2**30
_REMEMBERED = 2**30


def layer_models(
    model: EmbeddingModel, layers: Sequence[int] | Literal["all"], *, most: int = _TOGETHER
) -> list[EmbeddingModel]:
    """Returns each of an encoder's layers as a model; one pass over the texts serves all layers that fit into memory.

    Args:
        model: as `open_model` opens it.
        layers: from 0 (the embedding layer's output) to its depth, or ``all``.
        most: bytes of vectors that are stored for the next layers.

    Raises:
        UserError: for a model without layers to choose from.
    """
    if model.layers is None:
        raise UserError(NO_LAYERS.format(model.name))
    every = list(range(model.layers.depth + 1)) if layers == "all" else list(dict.fromkeys(layers))
    shared = _Together(model.layers, every, most)
    names = {layer: f"{model.name}, layer {layer}" for layer in every}

    def searching(layer: int) -> Searching | None:
        if model.searching is None:
            return None
        return Searching(partial(shared, layer, role=Role.QUERY), partial(shared, layer, role=Role.DOCUMENT))

    return [
        replace(model, name=names[layer], encode=partial(shared, layer), searching=searching(layer), layers=None)
        for layer in every
    ]


def first_dimensions(model: EmbeddingModel, dimensions: Sequence[int]) -> list[EmbeddingModel]:
    """Returns a model for each number of first dimensions; a text is encoded once for all of them.

    Args:
        model: as `open_model` opens it.
        dimensions: numbers of first dimensions.

    Raises:
        UserError: while encoding, for more than its vectors have.
    """
    several = list(dict.fromkeys(dimensions))
    if any(count < 1 for count in several):
        raise UserError(f"dimensions are from 1 on, not {min(several)}")
    shared = remembering(model)
    return [_first_of(shared, count) for count in several]


def _first_of(model: EmbeddingModel, count: int) -> EmbeddingModel:
    def change(encode: Encode) -> Encode:
        def first(texts: Sequence[str]) -> Vectors:
            vectors = np.asarray(encode(texts))
            require_dimensions(count, vectors.shape[1], model.name)
            return first_of(vectors, count)

        return first

    return model.mapped(change, name=f"{model.name}, {count} dimensions")


class _Together:
    """Encodes by a layer and as many of the next as fit, and stores these while the same texts are encoded."""

    def __init__(self, by_layer: ByLayer, layers: Sequence[int], most: int) -> None:
        self._by_layer, self._layers, self._most = by_layer, layers, most
        self._texts: list[str] = []
        self._role = Role.PLAIN
        self._stored: dict[int, NDArray[np.float32]] = {}

    def __call__(self, layer: int, texts: Sequence[str], role: Role = Role.PLAIN) -> NDArray[np.float32]:
        requested = list(texts)
        if layer not in self._stored or requested != self._texts or role is not self._role:
            self._stored = {}  # freed before the new ones are made
            size = max(1, len(requested) * self._by_layer.width * np.dtype(np.float32).itemsize)
            first = self._layers.index(layer)
            group = self._layers[first : first + max(1, self._most // size)]
            self._stored, self._texts, self._role = self._by_layer.encode(requested, group, role), requested, role
        return self._stored[layer]


def remembering(model: EmbeddingModel) -> EmbeddingModel:
    """Returns the model with `Remembered` encodings."""
    return model.mapped(Remembered)


class Remembered:
    """An ``encode`` that encodes a text once, and returns the stored vector for it afterwards.

    Args:
        encode: the model's.
        most: bytes of vectors that are stored; texts beyond them are encoded each time.

    Example:
        >>> calls = []
        >>> encode = Remembered(lambda texts: calls.append(list(texts)) or np.ones((len(texts), 2)))
        >>> encode(["a", "b"]).shape, encode(["b", "c"]).shape, calls
        ((2, 2), (2, 2), [['a', 'b'], ['c']])
    """

    def __init__(self, encode: Encode, most: int = _REMEMBERED) -> None:
        self._encode, self._room = encode, most
        self._stored: dict[str, Vectors] = {}

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Returns the vectors of ``texts``, (n, d)."""
        new = list(dict.fromkeys(text for text in texts if text not in self._stored))
        if len(new) == len(texts):
            return self._encode_new(new)
        fresh = dict(zip(new, self._encode_new(new), strict=True)) if new else {}
        return np.stack([self._stored[text] if text in self._stored else fresh[text] for text in texts])

    def _encode_new(self, texts: list[str]) -> Vectors:
        vectors = np.asarray(self._encode(texts))
        if vectors.ndim == 2 and len(vectors) == len(texts) and vectors.nbytes <= self._room:
            self._room -= vectors.nbytes
            self._stored.update(zip(texts, vectors, strict=True))
        return vectors
