"""What evaluation asks of a model: texts in, one vector each out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError
from opencse.evaluation.correlation import Floats, cosine_of_rows, rows_not_finite

Encode = Callable[[Sequence[str]], NDArray[np.floating]]
"""n texts -> (n, d) floating-point array, row i for text i. Any model can be evaluated through it."""

Progress = Callable[[str], None]
"""Called with one line at each step of an evaluation."""


def silent(line: str) -> None:
    """The `Progress` that tells nobody."""


@dataclass(frozen=True)
class ByLayer:
    """The layers of an encoder.

    Attributes:
        depth: of the last one; 0 is the embedding layer's output.
        width: length of a layer's vectors.
        encode: n texts and numbers of layers -> (n, width) float32 a layer, in one pass over the texts.
    """

    depth: int
    width: int
    encode: Callable[[Sequence[str], Sequence[int]], dict[int, NDArray[np.float32]]]


@dataclass(frozen=True)
class EmbeddingModel:
    """A model ready to be evaluated.

    Attributes:
        name: what tables and results call it.
        encode: n texts -> (n, d) array.
        pooling: how token vectors become one, where that is known.
        device: where it runs, where that is known.
        code: the classes of its folder's own that made its vectors, where their code was trusted.
        layers: an encoder's layers; None where there are none to choose from.
    """

    name: str
    encode: Encode
    pooling: str | None = None
    device: str | None = None
    code: tuple[str, ...] = ()
    layers: ByLayer | None = None


BLOCK = 4096  # pairs compared at a time, so that float64 copies stay small


class Embedded:
    """The vectors of a set of distinct texts, found by text."""

    def __init__(self, texts: list[str], vectors: NDArray[np.floating]) -> None:
        """``texts``: n distinct texts; ``vectors``: (n, d)."""
        self.vectors = vectors
        self._row = {text: row for row, text in enumerate(texts)}

    def __len__(self) -> int:
        return len(self.vectors)

    def rows(self, texts: Sequence[str]) -> NDArray[np.intp]:
        """The row (n,) of each text."""
        return np.fromiter((self._row[text] for text in texts), dtype=np.intp, count=len(texts))

    def of(self, texts: Sequence[str]) -> NDArray[np.floating]:
        """The vector of each text, (n, d)."""
        return self.vectors[self.rows(texts)]

    def pair_features(self, first: Sequence[str], second: Sequence[str]) -> NDArray[np.float32]:
        """[|u - v|, u * v] of each pair of texts (n, 2 d), float32: what SentEval's classifiers read of a pair."""
        u, v = (self.of(side).astype(np.float32) for side in (first, second))
        return np.hstack([np.abs(u - v), u * v])

    def cosines(self, first: Sequence[str], second: Sequence[str]) -> Floats:
        """The cosine (n,) of each pair of texts; see ``cosine_of_rows``."""
        one, two = self.rows(first), self.rows(second)
        blocks = range(0, len(one), BLOCK)
        return np.concatenate(
            [cosine_of_rows(self.vectors[one[b : b + BLOCK]], self.vectors[two[b : b + BLOCK]]) for b in blocks]
        )


def distinct(groups: Iterable[Sequence[str]]) -> list[str]:
    """The different texts of all groups, in the order of their first appearance."""
    return list(dict.fromkeys(text for group in groups for text in group))


def embed(encode: Encode, texts: list[str]) -> Embedded:
    """The vectors of distinct ``texts``, by one call of ``encode``.

    Raises:
        UserError: if a vector holds NaN or infinite values; the first such text is named.
        ValueError: if ``encode`` does not return a floating-point (n, d) array.
    """
    vectors = np.asarray(encode(texts))
    if vectors.ndim != 2 or len(vectors) != len(texts) or not vectors.size:
        raise ValueError(
            f"encode returned an array of shape {vectors.shape} for {len(texts)} texts; (n, d) is expected"
        )
    if not np.issubdtype(vectors.dtype, np.floating):
        raise ValueError(f"encode returned values of type {vectors.dtype}; floating-point numbers are expected")
    bad = rows_not_finite(vectors)
    if bad.any():
        raise UserError(
            f"the model gave NaN or infinite values for {int(bad.sum()):,} of {len(texts):,} sentences "
            f"(first: {texts[int(bad.argmax())][:60]!r}); it has diverged, or overflows its number format: "
            "try float32"
        )
    return Embedded(texts, vectors)
