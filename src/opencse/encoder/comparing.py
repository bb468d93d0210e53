"""Compares texts or vectors by a model's similarity function, for every kind of encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from opencse.arrays import Embeddings
from opencse.errors import UserError
from opencse.modules.similarity import Similarity

Comparable = str | Sequence[str] | NDArray[np.floating]
"""A text, texts, or vectors: (n, d), or (d,) for a single one."""


class _Encodes(Protocol):
    similarity_fn_name: Similarity

    def encode(self, texts: Sequence[str], /) -> Embeddings: ...


class ComparesTexts:
    """Base class of encoders that compare texts; they have ``encode`` and ``similarity_fn_name``."""

    def similarity(self: _Encodes, a: Comparable, b: Comparable) -> Embeddings:
        """Compares every a with every b by the model's similarity function: (n, m) float32.

        That is the cosine, the dot product, or the negative Euclidean or Manhattan distance, as named by the model's
        folder (``similarity_fn_name``, as in sentence-transformers). Texts are encoded; arrays are taken as vectors,
        (n, d) or (d,) for a single one.

        Raises:
            UserError: for arrays of another shape, or vectors of different lengths.
            TypeError: for values that are neither texts nor an array.
        """
        return self.similarity_fn_name.matrix(as_vectors("a", a, self.encode), as_vectors("b", b, self.encode))

    def similarity_pairwise(self: _Encodes, a: Comparable, b: Comparable) -> Embeddings:
        """Compares the i-th a with the i-th b, as `similarity` does: (n,) float32.

        Raises:
            UserError: for arrays of another shape, or of different numbers of rows or dimensions.
            TypeError: for values that are neither texts nor an array.
        """
        one, two = as_vectors("a", a, self.encode), as_vectors("b", b, self.encode)
        if one.shape != two.shape:
            raise UserError(f"vectors of shape {one.shape} and {two.shape} cannot be compared row by row")
        function = self.similarity_fn_name
        return function.of_pairs(function.prepared(one), function.prepared(two)).astype(np.float32)


def as_vectors(
    name: str,
    value: Comparable,
    encode: Callable[[Sequence[str]], NDArray[np.float32]],
) -> NDArray[np.floating]:
    """Encodes ``value`` if it holds texts; vectors are returned as (n, d).

    Args:
        name: of the argument, for messages.
        value: a text, texts, or vectors (n, d) or (d,).
        encode: encodes texts.

    Raises:
        UserError: for arrays of another shape.
        TypeError: for values that are neither texts nor an array.
    """
    if not isinstance(value, Iterable):
        raise TypeError(f"{name} is a text, texts or an array of vectors, not {type(value).__name__}")
    if not isinstance(value, np.ndarray):
        return encode([value] if isinstance(value, str) else value)
    if value.ndim not in (1, 2) or value.dtype.kind not in "fiu":
        raise UserError(f"vectors are a (n, d) array of numbers, not {value.dtype} of shape {value.shape}")
    return np.atleast_2d(value)
