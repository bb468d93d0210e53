"""The most similar pairs of a corpus, and its duplicates; exact, by blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opencse.arrays import Floats, Integers
from opencse.errors import UserError
from opencse.modules.similarity import Similarity
from opencse.progress import Count
from opencse.ranking import PreparedVectors, similarities
from opencse.text.scripts import folded

_BLOCK = 4_096


@dataclass(frozen=True)
class Pair:
    """Two rows and how similar they are.

    Attributes:
        score: similarity of their vectors, by the function of the model.
        first: id of the row that was added earlier.
        second: id of the other.
        first_text: the texts.
        second_text: see ``first_text``.
    """

    score: float
    first: str
    second: str
    first_text: str
    second_text: str


@dataclass(frozen=True)
class Duplicates:
    """Rows that say the same.

    Attributes:
        ids: of at least two rows, the one added first before the others; deleting all but it leaves one of each.
        texts: of these rows.
        score: the least similarity by which one of them is joined to the others; of equal texts a cosine of 1.
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    score: float


def nearest_pairs(
    vectors: PreparedVectors,
    most: int,
    *,
    similarity: Similarity = Similarity.COSINE,
    groups: NDArray[np.int64] | None = None,
    progress: Count | None = None,
) -> tuple[Integers, Floats]:
    """The ``most`` pairs of rows that are most similar, of all n (n - 1) / 2.

    Args:
        vectors: (n, d) prepared.
        most: how many, at least 1.
        similarity: the function that vectors are prepared for.
        groups: (n,) numbers; two rows of one group are no pair.
        progress: called with (rows done, n).

    Returns:
        (p, 2) rows, the earlier one first, the best pair first and equal ones in their order; and their similarities.

    Raises:
        UserError: for ``most`` below 1.
    """
    if most < 1:
        raise UserError(f"the number of pairs is at least 1, not {most}")
    slack = similarity.slack(vectors, vectors)
    least = [-np.inf]  # read anew for every block
    pairs, rough = np.empty((0, 2), dtype=np.int64), np.empty(0, dtype=np.float32)
    for found, scores in _blocks(vectors, least, similarity, progress):
        if groups is not None:
            apart = groups[found[:, 0]] != groups[found[:, 1]]
            found, scores = found[apart], scores[apart]
        pairs, rough = np.concatenate([pairs, found]), np.concatenate([rough, scores])
        if len(rough) > most:
            # What float32 holds for less than the last one by more than its error is none of the best.
            least[0] = float(np.partition(rough, -most)[-most]) - 2 * slack
            kept = rough >= least[0]
            pairs, rough = pairs[kept], rough[kept]
    exact = _exact(vectors, pairs, similarity)
    order = np.lexsort((pairs[:, 1], pairs[:, 0], -exact))[:most]
    return pairs[order], exact[order]


def duplicate_rows(
    vectors: PreparedVectors,
    texts: Sequence[str],
    threshold: float | None,
    *,
    similarity: Similarity = Similarity.COSINE,
    progress: Count | None = None,
) -> list[tuple[list[int], float]]:
    """Groups of rows whose texts are equal but for case and white space, or whose similarity reaches a threshold.

    Rows are of one group where a chain of such pairs joins them.

    Args:
        vectors: (n, d) prepared.
        texts: n texts.
        threshold: least similarity; None: equal texts alone.
        similarity: the function that vectors are prepared for.
        progress: called with (rows done, of how many).

    Returns:
        The rows of each group, ascending, groups by their first row; and the least similarity that joined it, of
        equal texts that of the first one to itself.

    Raises:
        UserError: for a threshold that is no cosine above 0, or above 0 for a distance.
    """
    if threshold is not None:
        _require_threshold(threshold, similarity)
    groups = _Groups(len(texts))
    first: dict[str, int] = {}
    for row, text in enumerate(texts):
        groups.join(first.setdefault(folded(text), row), row, np.inf)
    if threshold is not None:
        chosen = np.fromiter(first.values(), dtype=np.int64)
        some = np.asarray(vectors[chosen])
        floor = [float(similarity.on_rough_scale(np.array(threshold))) - similarity.slack(some, some)]
        for found, _ in _blocks(some, floor, similarity, progress):
            exact = _exact(some, found, similarity)
            for (a, b), score in zip(chosen[found].tolist(), exact.tolist(), strict=True):
                if score >= threshold:
                    groups.join(a, b, score)
    several = groups.several()
    if similarity is Similarity.COSINE:
        return [(rows, min(least, 1.0)) for rows, least in several]
    firsts = np.array([rows[0] for rows, _ in several], dtype=np.int64)
    to_itself = _exact(vectors, np.stack([firsts, firsts], axis=1), similarity)
    return [(rows, min(least, one)) for (rows, least), one in zip(several, to_itself.tolist(), strict=True)]


def _require_threshold(threshold: float, similarity: Similarity) -> None:
    if similarity is Similarity.COSINE and not 0 < threshold <= 1:
        raise UserError(f"the threshold is a cosine above 0 and at most 1, not {threshold}")
    if not math.isfinite(threshold) or (not similarity.is_product and threshold > 0):
        below = "" if similarity.is_product else " of at most 0 (the negative distance)"
        raise UserError(f"the threshold is a number{below}, since this index compares by {similarity}, not {threshold}")


class _Groups:
    """Rows joined into groups (union-find), with the least similarity that joined each."""

    def __init__(self, rows: int) -> None:
        self._above = list(range(rows))
        self._least = [np.inf] * rows

    def join(self, a: int, b: int, score: float) -> None:
        a, b = sorted((self._root(a), self._root(b)))
        if a != b:
            self._above[b] = a
            self._least[a] = min(self._least[a], self._least[b], score)

    def several(self) -> list[tuple[list[int], float]]:
        members: dict[int, list[int]] = {}
        for row in range(len(self._above)):
            members.setdefault(self._root(row), []).append(row)
        return [(rows, self._least[root]) for root, rows in members.items() if len(rows) > 1]

    def _root(self, row: int) -> int:
        while self._above[row] != row:
            self._above[row] = self._above[self._above[row]]
            row = self._above[row]
        return row


def _blocks(
    vectors: PreparedVectors, least: Sequence[float], similarity: Similarity, progress: Count | None
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Pairs (earlier, later row) with a rough similarity of at least ``least[0]``, and these, block by block."""
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
        if progress is not None:
            progress(min(start + _BLOCK, rows), rows)


def _exact(vectors: PreparedVectors, pairs: NDArray[np.int64], similarity: Similarity) -> Floats:
    parts = [np.empty(0)]
    for start in range(0, len(pairs), _BLOCK):
        here = pairs[start : start + _BLOCK]
        parts.append(similarities(np.asarray(vectors[here[:, 0]]), vectors, here[:, 1:], similarity)[:, 0])
    return np.concatenate(parts)
