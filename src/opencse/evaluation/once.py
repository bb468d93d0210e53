"""Texts are encoded once: for all layers that are scored, and for all suites that they stand in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError
from opencse.evaluation.embedding import ByLayer, EmbeddingModel, Encode, Searching
from opencse.modules.prompts import Role

NO_LAYERS = "{}: has no layers to choose from; only an encoder of transformers' has"
_TOGETHER = 2 * 2**30
_REMEMBERED = 2**30


def one_by_one(
    model: EmbeddingModel, layers: Sequence[int] | Literal["all"], *, most: int = _TOGETHER
) -> list[EmbeddingModel]:
    """Each of an encoder's layers as a model; one pass over the texts serves all that fit into memory together.

    Args:
        model: as `open_model` opens it.
        layers: from 0 (the embedding layer's output) to its depth, or ``all``.
        most: bytes of vectors that are kept for the next layers.

    Raises:
        UserError: for a model without layers to choose from.
    """
    if model.layers is None:
        raise UserError(NO_LAYERS.format(model.name))
    every = list(range(model.layers.depth + 1)) if layers == "all" else list(dict.fromkeys(layers))
    shared = _Together(model.layers, every, most)
    named = {layer: f"{model.name}, layer {layer}" for layer in every}

    def searching(layer: int) -> Searching | None:
        if model.searching is None:
            return None
        return Searching(partial(shared, layer, role=Role.QUERY), partial(shared, layer, role=Role.DOCUMENT))

    return [
        replace(model, name=named[layer], encode=partial(shared, layer), searching=searching(layer), layers=None)
        for layer in every
    ]


def cut_short(model: EmbeddingModel, dimensions: Sequence[int]) -> list[EmbeddingModel]:
    """A model by the first dimensions of its vectors, one after the other; a text is encoded once for all of them.

    Args:
        model: as `open_model` opens it.
        dimensions: how many are kept.

    Raises:
        UserError: while encoding, for more than its vectors have.
    """
    shared = remembering(model)

    def cut(kept: int, encode: Encode, texts: Sequence[str]) -> NDArray[np.floating]:
        vectors = np.asarray(encode(texts))
        if kept > vectors.shape[1]:
            raise UserError(f"{model.name}: has {vectors.shape[1]} dimensions, not {kept}; ask for fewer")
        return vectors[:, :kept]

    several = list(dict.fromkeys(dimensions))
    if any(kept < 1 for kept in several):
        raise UserError(f"dimensions are from 1 on, not {min(several)}")
    return [
        shared.mapped(lambda encode, kept=kept: partial(cut, kept, encode), name=f"{model.name}, {kept} dimensions")  # type: ignore[misc]
        for kept in several
    ]


class _Together:
    """Encodes for a layer and as many of the next as fit, and keeps these while the same texts are asked for."""

    def __init__(self, by_layer: ByLayer, layers: Sequence[int], most: int) -> None:
        self._by_layer, self._layers, self._most = by_layer, layers, most
        self._texts: list[str] = []
        self._role = Role.PLAIN
        self._kept: dict[int, NDArray[np.float32]] = {}

    def __call__(self, layer: int, texts: Sequence[str], role: Role = Role.PLAIN) -> NDArray[np.float32]:
        wanted = list(texts)
        if layer not in self._kept or wanted != self._texts or role is not self._role:
            self._kept = {}  # before new ones take as much
            size = max(1, len(wanted) * self._by_layer.width * np.dtype(np.float32).itemsize)
            first = self._layers.index(layer)
            group = self._layers[first : first + max(1, self._most // size)]
            self._kept, self._texts, self._role = self._by_layer.encode(wanted, group, role), wanted, role
        return self._kept[layer]


def remembering(model: EmbeddingModel) -> EmbeddingModel:
    """The model with `Remembered` encodings."""
    return model.mapped(Remembered)


class Remembered:
    """An ``encode`` that is asked for a text once: what stands in several suites is encoded for the first of them.

    Args:
        encode: of the model.
        most: bytes of vectors that are kept; texts beyond them are encoded as often as they are asked for.
    """

    def __init__(self, encode: Encode, most: int = _REMEMBERED) -> None:
        self._encode, self._room = encode, most
        self._kept: dict[str, NDArray[np.floating]] = {}

    def __call__(self, texts: Sequence[str]) -> NDArray[np.floating]:
        """The vectors of ``texts``, (n, d)."""
        new = list(dict.fromkeys(text for text in texts if text not in self._kept))
        if len(new) == len(texts):
            return self._asked(new)
        fresh = dict(zip(new, self._asked(new), strict=True)) if new else {}
        return np.stack([self._kept[text] if text in self._kept else fresh[text] for text in texts])

    def _asked(self, texts: list[str]) -> NDArray[np.floating]:
        vectors = np.asarray(self._encode(texts))
        if vectors.ndim == 2 and len(vectors) == len(texts) and vectors.nbytes <= self._room:
            self._room -= vectors.nbytes
            self._kept.update(zip(texts, vectors, strict=True))
        return vectors
