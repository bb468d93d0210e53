"""Which encoder of a run is kept: the best on the dev pairs, the start counted among them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

from opencse.analysis.alignment import alignment, positive_sides, uniformity
from opencse.encoder.encoder import SentenceEncoder
from opencse.evaluation import ScoredPairs, distinct, embed, spearman

SPREAD = 1_000
"""Sentences whose pairs the uniformity is taken over, so that following it costs next to nothing."""


@dataclass(frozen=True)
class DevScore:
    """What an encoder is worth on the dev pairs.

    Attributes:
        spearman: correlation of cosine and gold score, x 100; what is selected on.
        alignment: of the pairs of high gold score (see `opencse.analysis.alignment`); None if there are none.
        uniformity: of the first ``SPREAD`` distinct sentences; None where a sentence has no vector.
    """

    spearman: float
    alignment: float | None = None
    uniformity: float | None = None

    def record(self) -> dict[str, float]:
        """For the log: ``dev``, and where known ``dev_alignment`` and ``dev_uniformity``."""
        found = {"dev": self.spearman, "dev_alignment": self.alignment, "dev_uniformity": self.uniformity}
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True)
class Dev:
    """Graded pairs to select on.

    Attributes:
        name: what a person calls them.
        pairs: sentences and gold scores.
    """

    name: str
    pairs: ScoredPairs

    def fingerprint(self) -> str:
        """A hash of the sentences and their gold scores, 64 hexadecimal digits."""
        pairs = self.pairs
        told = json.dumps([pairs.first, pairs.second, pairs.scores.tolist()], ensure_ascii=True)
        return hashlib.sha256(told.encode()).hexdigest()

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


@dataclass
class History:
    """The dev scores of a run, by step; step 0 is the model as it was given."""

    scores: dict[int, float] = field(default_factory=dict)

    @property
    def best_step(self) -> int:
        """The earliest step with the highest score; a later one must be strictly better."""
        return max(self.scores, key=lambda step: (self.scores[step], -step))

    def add(self, step: int, score: float) -> bool:
        """Notes a score; whether it is the best so far."""
        self.scores[step] = score
        return self.best_step == step

    def verdict(self, steps: int) -> str:
        """The outcome in one plain sentence."""
        start, best, last = self.scores[0], self.scores[self.best_step], self.scores[max(self.scores)]
        numbers = f"start {start:.2f}, best {best:.2f} at step {self.best_step:,}, last {last:.2f}"
        if self.best_step == 0:
            return f"training did not help on the dev pairs, so the start is kept unchanged ({numbers})"
        caution = ""
        if self.best_step == max(self.scores) and steps > 1:
            caution = "; the best is the last evaluation: longer training may help"
        return f"the best model is kept ({numbers}{caution})"
