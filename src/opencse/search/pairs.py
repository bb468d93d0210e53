"""Finds the most similar pairs of rows of an index, and its duplicates; exact, computed block by block."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from opencse.arrays import Floats, Integers
from opencse.errors import UserError
from opencse.modules.similarity import Similarity
from opencse.progress import Count, uncounted
from opencse.ranking import PreparedVectors, similarities
from opencse.text.scripts import folded

_BLOCK = 4_096
"""Rows that are compared at a time."""


@dataclass(frozen=True)
class SimilarPair:
    """Two rows and how similar they are.

    Example:
        >>> SimilarPair(0.91, "0", "4", "A cat sleeps.", "The cat is asleep.").second
        '4'

    Attributes:
        score: similarity of their vectors, by the function of the model.
        first: id of the row that was added earlier.
        second: id of the other.
        first_text: text of the first row.
        second_text: text of the second row.
    """

    score: float
    first: str
    second: str
    first_text: str
    second_text: str


@dataclass(frozen=True)
class Duplicates:
    """A group of texts with the same content.

    Example:
        >>> group = Duplicates(("0", "3"), ("A cat sleeps.", "a  cat sleeps."), 1.0)
        >>> group.ids[1:]  # delete these to keep one of each
        ('3',)

    Attributes:
        ids: the ids of at least two rows or documents, in the order in which they were added; deleting all but the
            first leaves one of each.
        texts: the texts of these; of a document in several passages the first one.
        score: the lowest similarity that connects one of them to the others; 1 for equal texts (cosine).
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    score: float


def nearest_pairs(
    vectors: PreparedVectors,
    most: int,
    *,
    similarity: Similarity = Similarity.COSINE,
    groups: Integers | None = None,
    progress: Count = uncounted,
) -> tuple[Integers, Floats]:
    """Finds the ``most`` most similar pairs of rows, of all n (n - 1) / 2.

    Example:
        >>> vectors = np.array([[1, 0], [0, 1], [0.8, 0.6]], dtype=np.float32)
        >>> pairs, scores = nearest_pairs(vectors, 2)
        >>> pairs.tolist(), scores.round(2).tolist()
        ([[0, 2], [1, 2]], [0.8, 0.6])

    Args:
        vectors: (n, d) prepared.
        most: number of pairs, at least 1.
        similarity: the function that vectors are prepared for.
        groups: (n,) group numbers; two rows of one group are not a pair.
        progress: called with (rows done, n).

    Returns:
        (p, 2) row numbers, the lower one first, best pairs first and ties in row order; and their similarities (p,).
    """
    slack = similarity.slack(vectors, vectors)
    least = [-np.inf]  # read again for every block
    pairs, rough = np.empty((0, 2), dtype=np.int64), np.empty(0, dtype=np.float32)
    for block, scores in _blocks(vectors, least, similarity, progress):
        if groups is not None:
            apart = groups[block[:, 0]] != groups[block[:, 1]]
            block, scores = block[apart], scores[apart]
        pairs, rough = np.concatenate([pairs, block]), np.concatenate([rough, scores])
        if len(rough) > most:
            # A pair that float32 rates below the last one by more than its error cannot be among the best.
            least[0] = float(np.partition(rough, -most)[-most]) - 2 * slack
            near = rough >= least[0]
            pairs, rough = pairs[near], rough[near]
    exact = _exact(vectors, pairs, similarity)
    order = np.lexsort((pairs[:, 1], pairs[:, 0], -exact))[:most]
    return pairs[order], exact[order]


def duplicate_documents(
    vectors: PreparedVectors,
    texts: Sequence[str],
    documents: Sequence[Sequence[int]],
    threshold: float | None,
    *,
    similarity: Similarity = Similarity.COSINE,
    progress: Count = uncounted,
) -> list[tuple[list[int], float]]:
    """Groups documents whose texts are equal except for case and white space, or whose similarity reaches a threshold.

    Documents of several passages reach it if their first passages do, and each other passage of either of them does
    with some passage of the other one. So documents that only share a passage are not duplicates. Documents are in one
    group if a chain of such pairs connects them.

    Example:
        >>> vectors = np.array([[1, 0], [0, 1], [1, 0], [0, 1]], dtype=np.float32)
        >>> texts = ["A cat.", "Rain.", "a  CAT.", "Rain."]
        >>> duplicate_documents(vectors, texts, [[0], [1], [2], [3]], None)
        [([0, 2], 1.0), ([1, 3], 1.0)]
        >>> duplicate_documents(vectors, texts, [[0, 1], [2], [3]], None)  # the first document is "A cat. Rain."
        []

    Args:
        vectors: (n, d) prepared.
        texts: n texts.
        documents: the documents of each document the rows of its passages, in their order.
        threshold: lowest similarity; None: equal texts only.
        similarity: the function that vectors are prepared for.
        progress: called with (documents done, total).

    Returns:
        The documents of each group, ascending, groups by their first document; and the lowest similarity that connects
        it, for equal texts the similarity of the first one to itself.

    Raises:
        UserError: for a threshold that is not a cosine above 0, or above 0 for a distance.
    """
    if threshold is not None:
        _require_threshold(threshold, similarity)
    groups = _Groups(len(documents))
    first: dict[str, int] = {}
    for number, rows in enumerate(documents):
        groups.join(first.setdefault(folded(" ".join(texts[row] for row in rows)), number), number, np.inf)
    beginnings = np.array([rows[0] for rows in documents], dtype=np.int64)
    if threshold is not None:
        distinct = np.fromiter(first.values(), dtype=np.int64)
        distinct_vectors = np.asarray(vectors[beginnings[distinct]])
        slack = similarity.slack(distinct_vectors, distinct_vectors)
        floor = [float(similarity.on_rough_scale(np.array(threshold))) - slack]
        for pairs, _ in _blocks(distinct_vectors, floor, similarity, progress):
            exact = _exact(distinct_vectors, pairs, similarity)
            for (a, b), score in zip(distinct[pairs].tolist(), exact.tolist(), strict=True):
                if score >= threshold and not groups.joined(a, b):
                    least = min(score, _least_match(vectors, documents[a], documents[b], similarity))
                    if least >= threshold:
                        groups.join(a, b, least)
    several = groups.several()
    if similarity is Similarity.COSINE:
        return [(members, min(least, 1.0)) for members, least in several]
    firsts = beginnings[[members[0] for members, _ in several]]
    to_itself = _exact(vectors, np.stack([firsts, firsts], axis=1), similarity)
    return [(members, min(least, one)) for (members, least), one in zip(several, to_itself.tolist(), strict=True)]


def _least_match(vectors: PreparedVectors, one: Sequence[int], other: Sequence[int], similarity: Similarity) -> float:
    """Of the passages of both documents, the lowest similarity to the best match in the other one; first ones aside."""
    if len(one) == len(other) == 1:
        return math.inf
    pairs = np.array([(a, b) for a in one for b in other], dtype=np.int64)
    scores = _exact(vectors, pairs, similarity).reshape(len(one), len(other))
    return float(min(scores.max(axis=1)[1:].min(initial=np.inf), scores.max(axis=0)[1:].min(initial=np.inf)))


def _require_threshold(threshold: float, similarity: Similarity) -> None:
    if similarity is Similarity.COSINE and not 0 < threshold <= 1:
        raise UserError(f"the threshold is a cosine above 0 and at most 1, not {threshold}")
    if not math.isfinite(threshold) or (not similarity.is_product and threshold > 0):
        below = "" if similarity.is_product else " of at most 0 (the negative distance)"
        raise UserError(f"the threshold is a number{below}, since this index compares by {similarity}, not {threshold}")


class _Groups:
    """Connects documents into groups (union-find), with the lowest similarity that connects each."""

    def __init__(self, documents: int) -> None:
        self._parents = list(range(documents))
        self._least = [np.inf] * documents

    def join(self, a: int, b: int, score: float) -> None:
        a, b = sorted((self._root(a), self._root(b)))
        if a != b:
            self._parents[b] = a
            self._least[a] = min(self._least[a], self._least[b], score)

    def joined(self, a: int, b: int) -> bool:
        return self._root(a) == self._root(b)

    def several(self) -> list[tuple[list[int], float]]:
        members: dict[int, list[int]] = {}
        for number in range(len(self._parents)):
            members.setdefault(self._root(number), []).append(number)
        return [(group, self._least[root]) for root, group in members.items() if len(group) > 1]

    def _root(self, number: int) -> int:
        while self._parents[number] != number:
            self._parents[number] = self._parents[self._parents[number]]
            number = self._parents[number]
        return number


def _blocks(
    vectors: PreparedVectors, least: Sequence[float], similarity: Similarity, progress: Count
) -> Iterator[tuple[Integers, PreparedVectors]]:
    """Pairs (lower, higher row) with a rough similarity of at least ``least[0]``, and the similarities, by block."""
    rows = len(vectors)
    for start in range(0, rows, _BLOCK):
        one = np.asarray(vectors[start : start + _BLOCK])
        for other in range(start, rows, _BLOCK):
            scores = similarity.rough(one, np.asarray(vectors[other : other + _BLOCK]))
            near = scores >= least[0]
            if other == start:
                near = np.triu(near, 1)
            a, b = np.nonzero(near)
            yield np.stack([a + start, b + other], axis=1), scores[a, b]
        progress(min(start + _BLOCK, rows), rows)


def _exact(vectors: PreparedVectors, pairs: Integers, similarity: Similarity) -> Floats:
    """Similarities (p,) of pairs of rows in float64."""
    parts = [np.empty(0)]
    for start in range(0, len(pairs), _BLOCK):
        block = pairs[start : start + _BLOCK]
        parts.append(similarities(np.asarray(vectors[block[:, 0]]), vectors, block[:, 1:], similarity)[:, 0])
    return np.concatenate(parts)
