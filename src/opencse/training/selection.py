"""Which encoder of a run is kept: the best on graded pairs, the start counted among them."""

from __future__ import annotations

from dataclasses import dataclass

from opencse.analysis.alignment import alignment, positive_sides, uniformity
from opencse.encoder.encoder import SentenceEncoder
from opencse.evaluation import ScoredPairs, distinct, embed, spearman
from opencse.selection.score import DevScore, History, Selector

__all__ = ["Dev", "DevScore", "History", "Selector"]

SPREAD = 1_000
"""Sentences whose pairs the uniformity is taken over, so that following it costs next to nothing."""


@dataclass(frozen=True)
class Dev:
    """Graded pairs to select on.

    Attributes:
        name: what a person calls them.
        pairs: sentences and gold scores.
    """

    name: str
    pairs: ScoredPairs

    @property
    def measure(self) -> str:
        """What the value is."""
        return "Spearman x 100"

    @property
    def size(self) -> str:
        """How many pairs there are."""
        return f"{len(self.pairs):,} pairs"

    @property
    def left_out(self) -> None:
        """Nothing: the pairs are no part of the text."""
        return

    def begin(self, start: SentenceEncoder) -> DevScore:
        """Judges the model as it was given."""
        return self.score(start)

    def score(self, encoder: SentenceEncoder) -> DevScore:
        """Judges ``encoder``; the pairs are encoded once, in float32."""
        pairs = self.pairs
        embedded = embed(encoder.encode, distinct([pairs.first, pairs.second]))
        spearman_ = 100 * spearman(embedded.cosines(pairs.first, pairs.second), pairs.scores)
        if not embedded.vectors.any(axis=1).all():
            return DevScore(spearman_)  # a text without a token has no direction
        alike = positive_sides(embedded, pairs)
        return DevScore(
            spearman_,
            alignment=None if alike is None else alignment(*alike),
            uniformity=uniformity(embedded.vectors[:SPREAD]),
        )

    def verdict(self, history: History, steps: int) -> str:
        """The outcome in one plain sentence."""
        return history.verdict(steps)
