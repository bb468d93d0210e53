"""The model that evaluation takes (texts in, one vector each out), its layers and dimensions, and vectors of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from opencse.arrays import Floats, Integers, Vectors
from opencse.errors import UserError
from opencse.modules.prompts import Role
from opencse.modules.similarity import HybridWeight, Similarity, first_of, require_dimensions
from opencse.numerals import number_of
from opencse.statistics.correlation import cosine_of_rows, rows_not_finite

Encode = Callable[[Sequence[str]], Vectors]
"""n texts -> (n, d) floating-point array, row i for text i. Any model can be evaluated through it."""

Split = Callable[[Sequence[str]], list[list[str]]]
"""n texts -> the passages of each, at least one, that a model reads completely."""

SearchEncode = Callable[[Sequence[str], Sequence[str]], tuple[Vectors, Vectors]]
"""n queries and m documents -> (n, d) and (m, d): how a model encodes for search."""


@dataclass(frozen=True)
class ByLayer:
    """The layers of an encoder, and how to encode texts by them.

    Attributes:
        depth: number of the last one; 0 is the embedding layer's output.
        width: length of a layer's vectors.
        encode: n texts, numbers of layers and the role of the texts -> (n, width) float32 for each layer, in one pass
            over the texts.
    """

    depth: int
    width: int
    encode: Callable[[Sequence[str], Sequence[int], Role], dict[int, NDArray[np.float32]]]


@dataclass(frozen=True)
class Searching:
    """The encodings of queries and documents, for a model that uses different prompts for them.

    Attributes:
        queries: n queries -> (n, d).
        documents: n documents -> (n, d).
    """

    queries: Encode
    documents: Encode


@dataclass(frozen=True)
class EmbeddingModel:
    """A model ready to be evaluated.

    Attributes:
        name: in tables and results.
        encode: n texts -> (n, d) array, of texts that are neither queries nor documents.
        pooling: how token vectors become one vector, where that is known.
        device: where it runs, where that is known.
        code: classes of the model folder's own code that made the vectors, where it was trusted.
        layers: an encoder's layers; None where a model has none.
        searching: how queries and documents are encoded; None: as all other texts.
        similarity: the function that compares its vectors in retrieval.
        hybrid_weight: of its vectors in a hybrid search, where one is saved with the model.
        split: documents into passages for a hybrid search; None: it reads them whole.

    Example:
        >>> model = EmbeddingModel("length", lambda texts: np.array([[float(len(text))] for text in texts]))
        >>> model.mapped(lambda encode: lambda texts: 2 * encode(texts), name="double").encode(["a", "bb"]).tolist()
        [[2.0], [4.0]]
    """

    name: str
    encode: Encode
    pooling: str | None = None
    device: str | None = None
    code: tuple[str, ...] = ()
    layers: ByLayer | None = None
    searching: Searching | None = None
    similarity: Similarity = Similarity.COSINE
    hybrid_weight: HybridWeight | None = None
    split: Split | None = None

    def mapped(self, change: Callable[[Encode], Encode], *, name: str | None = None) -> EmbeddingModel:
        """Returns the model with each of its encodings changed, without its layers."""
        searching = None
        if self.searching is not None:
            searching = Searching(change(self.searching.queries), change(self.searching.documents))
        return replace(self, name=name or self.name, encode=change(self.encode), searching=searching, layers=None)


BLOCK = 4096  # pairs compared at a time, so that float64 copies stay small


class Embedded:
    """The vectors of a set of distinct texts, looked up by text.

    Attributes:
        vectors: (n, d).
        queries: the vectors of queries, where these are encoded differently from documents; else itself.
        similarity: the function that compares them in retrieval.
    """

    def __init__(self, texts: list[str], vectors: Vectors) -> None:
        """``texts``: n distinct texts; ``vectors``: (n, d)."""
        self.vectors = vectors
        self._row = {text: row for row, text in enumerate(texts)}

        self.queries = self
        self.similarity = Similarity.COSINE

    def with_queries(self, queries: Embedded) -> Embedded:
        """Returns these vectors as documents, together with ``queries``, which are encoded differently."""
        documents = copy(self)
        documents.queries = queries
        return documents

    def __len__(self) -> int:
        return len(self.vectors) + (0 if self.queries is self else len(self.queries.vectors))

    def rows(self, texts: Sequence[str]) -> Integers:
        """Returns the row (n,) of each text."""
        return np.fromiter((self._row[text] for text in texts), dtype=np.intp, count=len(texts))

    def of(self, texts: Sequence[str]) -> Vectors:
        """Returns the vector of each text, (n, d)."""
        return self.vectors[self.rows(texts)]

    def pair_features(self, first: Sequence[str], second: Sequence[str]) -> NDArray[np.float32]:
        """Returns [|u - v|, u * v] of each pair of texts (n, 2 d), float32, as SentEval's classifiers take pairs."""
        u, v = (self.of(side).astype(np.float32) for side in (first, second))
        return np.hstack([np.abs(u - v), u * v])

    def cosines(self, first: Sequence[str], second: Sequence[str]) -> Floats:
        """Returns the cosine (n,) of each pair of texts; see ``cosine_of_rows``."""
        one, two = self.rows(first), self.rows(second)
        blocks = range(0, len(one), BLOCK)
        return np.concatenate(
            [cosine_of_rows(self.vectors[one[b : b + BLOCK]], self.vectors[two[b : b + BLOCK]]) for b in blocks]
        )


def distinct(groups: Iterable[Sequence[str]]) -> list[str]:
    """Lists the different texts of all groups, in the order of their first appearance.

    Example:
        >>> distinct([["b", "a"], ["c", "b"]])
        ['b', 'a', 'c']
    """
    return list(dict.fromkeys(text for group in groups for text in group))


def embed_for_search(model: EmbeddingModel, searches: Iterable[tuple[Sequence[str], Sequence[str]]]) -> Embedded:
    """Encodes documents and queries: in one call if the model encodes both the same way, else documents first.

    Args:
        model: encodes them.
        searches: queries and the documents that they search, of one task or several.

    Raises:
        UserError: see `embed`.
        ValueError: see `embed`.
    """
    groups = list(searches)
    if model.searching is None:
        embedded = embed(model.encode, distinct(group for pair in groups for group in pair))
        embedded.similarity = model.similarity
        return embedded
    documents = embed(model.searching.documents, distinct(documents for _, documents in groups))
    documents.similarity = model.similarity
    return documents.with_queries(embed(model.searching.queries, distinct(queries for queries, _ in groups)))


def embed(encode: Encode, texts: list[str]) -> Embedded:
    """Encodes distinct ``texts`` by one call of ``encode``.

    Raises:
        UserError: if a vector holds NaN or infinite values; the first such text is named.
        ValueError: if ``encode`` does not return a floating-point (n, d) array.

    Example:
        >>> embedded = embed(lambda texts: np.array([[len(text), 1.0] for text in texts]), ["a", "bbb"])
        >>> embedded.of(["bbb", "a", "bbb"]).tolist()
        [[3.0, 1.0], [1.0, 1.0], [3.0, 1.0]]
    """
    return checked(texts, encode(texts))


def checked(texts: list[str], encoded: Vectors) -> Embedded:
    """Checks the vectors of distinct ``texts``; raises as `embed` does."""
    vectors = np.asarray(encoded)
    if vectors.ndim != 2 or len(vectors) != len(texts) or not vectors.size:
        raise ValueError(
            f"encode returned an array of shape {vectors.shape} for {number_of(len(texts), 'text')}; (n, d) is expected"
        )
    if not np.issubdtype(vectors.dtype, np.floating):
        raise ValueError(f"encode returned values of type {vectors.dtype}; floating-point numbers are expected")
    invalid = rows_not_finite(vectors)
    if invalid.any():
        raise UserError(
            f"the model gave NaN or infinite values for {int(invalid.sum()):,} of {len(texts):,} sentences "
            f"(first: {texts[int(invalid.argmax())][:60]!r}); it has diverged, or overflows its number format: "
            "try float32"
        )
    return Embedded(texts, vectors)


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
    shared = remembering(model)
    return [_first_of(shared, count) for count in dict.fromkeys(dimensions)]


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
