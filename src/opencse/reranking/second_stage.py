"""Scores first hits, or the rows of mined negatives, again by a cross-encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from opencse.arrays import Floats
from opencse.progress import Count, uncounted

DEPTH = 50
"""First texts of a ranking that are scored again."""


class PairScorer(Protocol):
    """Scores pairs of texts (`opencse.reranking.cross_encoder.CrossEncoder`)."""

    @property
    def name(self) -> str:
        """Name of the model."""

    def scores(
        self, pairs: Sequence[tuple[str, str]], *, logits: bool = False, progress: Count = uncounted
    ) -> NDArray[np.float32]:
        """The score of each pair, (n,)."""


@dataclass(frozen=True)
class SecondStage:
    """A cross-encoder, and how many texts it re-ranks.

    Example:
        >>> class Lengths:
        ...     name = "lengths"
        ...     def scores(self, pairs, *, logits=False, progress=None):
        ...         return np.array([len(text) for _, text in pairs], dtype=np.float32)
        >>> SecondStage(Lengths(), depth=3).reranked(["q"], [["a", "bbb", "cc", "dddd"]])
        [[(1, 3.0), (2, 2.0), (0, 1.0)]]

    Attributes:
        model: gives the scores.
        depth: texts of each ranking that are re-ranked, from the first.
    """

    model: PairScorer
    depth: int = DEPTH

    def reranked(
        self, queries: Sequence[str], rankings: Sequence[Sequence[str]], progress: Count = uncounted
    ) -> list[list[tuple[int, float]]]:
        """Re-ranks the first ``depth`` texts for each query, the highest score first; equal ones keep their order.

        Args:
            queries: n of them.
            rankings: n lists of texts, best first; texts after the first ``depth`` are not read.
            progress: called with (pairs done, pairs in all).

        Returns:
            For each query the positions in its list, with their scores.
        """
        counts = [min(len(texts), self.depth) for texts in rankings]
        pairs = [(query, text) for query, texts in zip(queries, rankings, strict=True) for text in texts[: self.depth]]
        parts = np.split(self.model.scores(pairs, progress=progress), np.cumsum(counts)[:-1]) if counts else []
        orders = [np.argsort(-scores, kind="stable") for scores in parts]
        return [
            list(zip(order.tolist(), scores[order].tolist(), strict=True))
            for order, scores in zip(orders, parts, strict=True)
        ]


@dataclass(frozen=True)
class MarginTeacher:
    r"""Gives the margins that a student learns from, and leaves out negatives that seem to answer the query.

    The margin of query q with positive p above negative n is

    .. math:: m = s(q, p) - s(q, n)

    with s the cross-encoder's score before its activation (Hofstaetter et al. 2020, arXiv:2010.02666, equation 4), so
    that a sigmoid does not make all large margins the same.

    Attributes:
        model: gives the scores.
        least: a negative with a smaller margin is left out, for instance 0: one that is scored above the positive; None
            leaves none out.
    """

    model: PairScorer
    least: float | None = None

    def margins(self, triples: Sequence[tuple[str, str, str]]) -> Floats:
        """The margin of each triple of query, positive and negative, (n,).

        Example:
            >>> class Lengths:
            ...     name = "lengths"
            ...     def scores(self, pairs, *, logits=False, progress=None):
            ...         return np.array([len(text) for _, text in pairs], dtype=np.float32)
            >>> MarginTeacher(Lengths()).margins([("q", "a long answer", "a negative")]).tolist()
            [3.0]
        """
        pairs = list(dict.fromkeys(pair for query, *texts in triples for pair in ((query, text) for text in texts)))
        row_of = {pair: row for row, pair in enumerate(pairs)}
        scores = self.model.scores(pairs, logits=True).astype(np.float64)
        positives = [row_of[query, positive] for query, positive, _ in triples]
        negatives = [row_of[query, negative] for query, _, negative in triples]
        return np.asarray(scores[positives] - scores[negatives])

    def select(
        self, rows: Sequence[tuple[str, str, Sequence[str]]], count: int
    ) -> tuple[list[list[tuple[str, float]]], int]:
        """Selects the first negatives of each row whose margin is large enough; others are not scored.

        Args:
            rows: query, positive, and candidates, the best first.
            count: negatives of each row.

        Returns:
            The negatives of each row with their margins, at most ``count``; and the number that was left out.
        """
        selected: list[list[tuple[str, float]]] = [[] for _ in rows]
        unseen = [list(candidates) for _, _, candidates in rows]
        left_out = 0
        while True:
            number_of = [count - len(some) for some in selected]
            batch = [(row, text) for row, most in enumerate(number_of) for text in unseen[row][:most]]
            if not batch:
                return selected, left_out
            unseen = [texts[most:] for texts, most in zip(unseen, number_of, strict=True)]
            margins = self.margins([(rows[row][0], rows[row][1], text) for row, text in batch])
            for (row, text), margin in zip(batch, margins.tolist(), strict=True):
                if self.least is None or margin >= self.least:
                    selected[row].append((text, margin))
                else:
                    left_out += 1
