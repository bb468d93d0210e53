"""Re-ranks the first texts of a ranking by the scores of a cross-encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError
from opencse.progress import Count

DEPTH = 50
"""First texts of a ranking that are scored again."""


class PairScorer(Protocol):
    """Scores pairs of texts (`opencse.reranking.cross_encoder.CrossEncoder`)."""

    @property
    def name(self) -> str:
        """Name of the model."""

    def scores(
        self, pairs: Sequence[tuple[str, str]], *, logits: bool = False, progress: Count | None = None
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

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise UserError(f"the depth of re-ranking is a number of texts, at least 1, not {self.depth}")

    def reranked(
        self, queries: Sequence[str], rankings: Sequence[Sequence[str]], progress: Count | None = None
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
