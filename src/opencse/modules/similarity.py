"""Compares vectors by the functions that model folders name; keeps first dimensions; the weight in a hybrid search."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from opencse.arrays import Vectors, without_warnings
from opencse.errors import UserError


@without_warnings
def unit_rows(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    """L2-normalises the rows of (n, d), as float32; zero rows stay zero, half precision does not overflow.

    >>> unit_rows(np.array([[0.0, 5.0], [0.0, 0.0]])).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    wide = vectors if vectors.dtype in (np.float32, np.float64) else vectors.astype(np.float32)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    return np.asarray(wide / np.maximum(norms, 1e-12), dtype=np.float32)


class Similarity(StrEnum):
    """The function that compares a model's vectors; distances are negative, so that higher is always nearer.

    ``cosine``: a·b / (|a| |b|); ``dot``: a·b; ``euclidean``: -|a - b|; ``manhattan``: -sum |a_i - b_i|.

    Vectors are prepared once (L2-normalised for ``cosine``, unchanged for the others) and then compared often.

    Example:
        >>> a, b = np.array([[1.0, 0.0]]), np.array([[2.0, 0.0], [0.0, 1.0]])
        >>> Similarity.COSINE.matrix(a, b).tolist()
        [[1.0, 0.0]]
        >>> Similarity.MANHATTAN.matrix(a, b).tolist()
        [[-1.0, -2.0]]
    """

    COSINE = "cosine"
    DOT = "dot"
    EUCLIDEAN = "euclidean"
    MANHATTAN = "manhattan"

    @property
    def is_product(self) -> bool:
        """Whether prepared vectors are compared by their inner product."""
        return self in (Similarity.COSINE, Similarity.DOT)

    def prepared(self, vectors: Vectors) -> NDArray[np.float32]:
        """(n, d) vectors as `rough`, `scores` and `of_pairs` compare them, float32."""
        return unit_rows(vectors) if self is Similarity.COSINE else np.asarray(vectors, dtype=np.float32)

    def matrix(self, a: Vectors, b: Vectors) -> NDArray[np.float32]:
        """Similarity of every row of (n, d) with every row of (m, d), vectors of any scale: (n, m) float32.

        Raises:
            UserError: for vectors of different lengths.
        """
        if a.shape[1] != b.shape[1]:
            raise UserError(f"vectors of {a.shape[1]} and of {b.shape[1]} dimensions cannot be compared")
        return self.scores(self.prepared(a), self.prepared(b))

    def scores(self, a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
        """Similarity of every row with every row, of prepared vectors: (n, m) float32."""
        if self is Similarity.EUCLIDEAN:
            wide = a.astype(np.float64), b.astype(np.float64)
            return np.asarray(-np.sqrt(np.maximum(-_squared(*wide), 0)), dtype=np.float32)
        return self.rough(a, b)

    def rough(self, a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
        """Values (n, m) float32 in the order of the similarities, up to rounding; for ``euclidean`` -|a - b|^2."""
        if self is Similarity.EUCLIDEAN:
            return np.asarray(_squared(a, b), dtype=np.float32)
        if self is Similarity.MANHATTAN:
            import torch

            one, two = (torch.from_numpy(np.array(rows, dtype=np.float32)) for rows in (a, b))
            return np.asarray(-torch.cdist(one, two, p=1.0).numpy())
        return np.asarray(a @ b.T)

    def on_rough_scale(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Exact similarities on the scale of `rough`."""
        return -np.square(scores) if self is Similarity.EUCLIDEAN else scores

    def slack(self, a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
        """Bound on the rounding error of `rough`, for any row of ``a`` with any row of ``b``."""
        dimension = a.shape[1]
        if self is Similarity.COSINE:
            return float((dimension + 2) * 2.0**-24)
        order = 1 if self is Similarity.MANHATTAN else 2
        one, two = (_longest(rows, order) for rows in (a, b))
        size = {Similarity.DOT: one * two, Similarity.EUCLIDEAN: (one + two) ** 2}.get(self, one + two)
        return float((dimension + 4) * 2.0**-23 * size)

    def of_pairs(self, a: Vectors, b: Vectors) -> NDArray[np.float64]:
        """Similarity (n,) of row i of (n, d) with row i of (n, d), of prepared vectors, computed in float64."""
        return self.of_candidates(a, b[:, None])[:, 0]

    def of_candidates(self, queries: Vectors, candidates: Vectors) -> NDArray[np.float64]:
        """Similarity (n, c) of each query (n, d) with its own candidates (n, c, d), of prepared vectors, in float64.

        Every pair is computed by itself, so that equal vectors have equal similarities.
        """
        one, two = queries.astype(np.float64)[:, None], candidates.astype(np.float64)
        if self.is_product:
            return np.asarray(np.multiply(two, one, out=two).sum(axis=2))
        two -= one
        if self is Similarity.EUCLIDEAN:
            return np.asarray(-np.sqrt(np.square(two, out=two).sum(axis=2)))
        return np.asarray(-np.abs(two, out=two).sum(axis=2))

    def share_of(self, score: float, share: float) -> float:
        """The similarity that is ``share`` times as high as ``score``; for negative ones (distances), farther away."""
        return score * share if score >= 0 else score / share


def _squared(a: Vectors, b: Vectors) -> Vectors:
    """-|a - b|^2, (n, m)."""
    return np.asarray(2 * (a @ b.T) - np.square(a).sum(axis=1)[:, None] - np.square(b).sum(axis=1))


def _longest(rows: NDArray[np.float32], order: int) -> float:
    """The largest norm of a row; they may be memory-mapped."""
    block = 65_536
    starts = range(0, len(rows), block)
    return max((float(np.linalg.norm(rows[s : s + block], ord=order, axis=1).max()) for s in starts), default=0.0)


Entry = TypeVar("Entry", bound=np.generic)


def require_dimensions(dimensions: int | None, dimension: int, model: str = "this model") -> None:
    """Refuses to keep fewer than one dimension of a vector, or more than it has.

    Example:
        >>> require_dimensions(64, 256)
        >>> require_dimensions(300, 256)
        Traceback (most recent call last):
        opencse.errors.UserError: dimensions is from 1 to the 256 of this model, not 300

    Args:
        dimensions: how many of the first are kept; None: all.
        dimension: of the vectors.
        model: that makes them, for the message.

    Raises:
        UserError: naming both numbers.
    """
    if dimensions is not None and not 1 <= dimensions <= dimension:
        raise UserError(f"dimensions is from 1 to the {dimension} of {model}, not {dimensions}")


def first_of(vectors: NDArray[Entry], dimensions: int | None) -> NDArray[Entry]:
    """The first dimensions of (n, d) vectors, of which d are there: (n, dimensions); all of them for None.

    They have no unit length any more, so whatever compares by the cosine normalises them afterwards.

    Example:
        >>> first_of(np.array([[1.0, -0.5, 9.0]]), 2).tolist()
        [[1.0, -0.5]]
    """
    return vectors[:, :dimensions]


DEFAULT_WEIGHT = 0.5
"""Weight of the vectors in a hybrid search, where nothing is known of the model; see `weight_of_model`."""


@dataclass(frozen=True)
class HybridWeight:
    """The weight of the vectors in a hybrid search; BM25 has the rest.

    Attributes:
        value: from 0 (BM25 alone) to 1 (vectors alone).
        source: what it was fitted on, or who chose it, for the user.

    Example:
        >>> print(HybridWeight(0.4, "300 questions from the documents"))
        0.40 (300 questions from the documents)
    """

    value: float = DEFAULT_WEIGHT
    source: str = "the default"

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.source})"
