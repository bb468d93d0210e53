"""What evaluation asks of a model: texts in, one vector each out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from opencse.arrays import Floats
from opencse.errors import UserError
from opencse.modules.prompts import Role
from opencse.modules.similarity import Similarity
from opencse.statistics.correlation import cosine_of_rows, rows_not_finite

Encode = Callable[[Sequence[str]], NDArray[np.floating]]
"""n texts -> (n, d) floating-point array, row i for text i. Any model can be evaluated through it."""

SearchEncode = Callable[[Sequence[str], Sequence[str]], tuple[NDArray[np.floating], NDArray[np.floating]]]
"""n queries and m documents -> (n, d) and (m, d): how a model encodes for search."""

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
        encode: n texts, numbers of layers and what the texts are for -> (n, width) float32 a layer, in one pass over
            the texts.
    """

    depth: int
    width: int
    encode: Callable[[Sequence[str], Sequence[int], Role], dict[int, NDArray[np.float32]]]


@dataclass(frozen=True)
class Searching:
    """How a model encodes queries and documents, where it reads them with different prompts.

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
        name: what tables and results call it.
        encode: n texts -> (n, d) array, of texts that are neither queries nor documents.
        pooling: how token vectors become one, where that is known.
        device: where it runs, where that is known.
        code: the classes of its folder's own that made its vectors, where their code was trusted.
        layers: an encoder's layers; None where there are none to choose from.
        searching: how queries and documents are encoded; None for as all texts.
        similarity: what its vectors are compared by in retrieval.
    """

    name: str
    encode: Encode
    pooling: str | None = None
    device: str | None = None
    code: tuple[str, ...] = ()
    layers: ByLayer | None = None
    searching: Searching | None = None
    similarity: Similarity = Similarity.COSINE

    def mapped(self, change: Callable[[Encode], Encode], *, name: str | None = None) -> EmbeddingModel:
        """The model with each of its encodings changed; its layers cannot be chosen any more."""
        searching = None
        if self.searching is not None:
            searching = Searching(change(self.searching.queries), change(self.searching.documents))
        return replace(self, name=name or self.name, encode=change(self.encode), searching=searching, layers=None)


BLOCK = 4096  # pairs compared at a time, so that float64 copies stay small


class Embedded:
    """The vectors of a set of distinct texts, found by text.

    Attributes:
        vectors: (n, d).
        queries: the vectors of queries, where they are made in another way than those of documents; else itself.
        similarity: what they are compared by in retrieval.
    """

    def __init__(self, texts: list[str], vectors: NDArray[np.floating]) -> None:
        """``texts``: n distinct texts; ``vectors``: (n, d)."""
        self.vectors = vectors
        self._row = {text: row for row, text in enumerate(texts)}

        self.queries = self
        self.similarity = Similarity.COSINE

    def asked_by(self, queries: Embedded) -> Embedded:
        """The same vectors as those of documents, with ``queries`` whose vectors are made in another way."""
        documents = copy(self)
        documents.queries = queries
        return documents

    def __len__(self) -> int:
        return len(self.vectors) + (0 if self.queries is self else len(self.queries.vectors))

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


def embed_for_search(model: EmbeddingModel, asked: Iterable[tuple[Sequence[str], Sequence[str]]]) -> Embedded:
    """The vectors of documents, and as its `queries` those of queries; by one call if all are read in one way.

    Else documents are encoded first.

    Args:
        model: encodes them.
        asked: queries and the documents among which they look, of one task or several.

    Raises:
        UserError: see `embed`.
        ValueError: see `embed`.
    """
    groups = list(asked)
    if model.searching is None:
        embedded = embed(model.encode, distinct(group for pair in groups for group in pair))
        embedded.similarity = model.similarity
        return embedded
    documents = embed(model.searching.documents, distinct(documents for _, documents in groups))
    documents.similarity = model.similarity
    return documents.asked_by(embed(model.searching.queries, distinct(queries for queries, _ in groups)))


def embed(encode: Encode, texts: list[str]) -> Embedded:
    """The vectors of distinct ``texts``, by one call of ``encode``.

    Raises:
        UserError: if a vector holds NaN or infinite values; the first such text is named.
        ValueError: if ``encode`` does not return a floating-point (n, d) array.
    """
    return checked(texts, encode(texts))


def checked(texts: list[str], given: NDArray[np.floating]) -> Embedded:
    """The vectors that an encoding gave for distinct ``texts``; see `embed` for what is refused."""
    vectors = np.asarray(given)
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
