"""Which encoder of a run is kept.

The rule: the best trained step, unless the start is better beyond what other dev pairs could bring. A step above the
start is kept; so is one within the noise below it, because a few general pairs cannot tell two models of nearly equal
score apart, and the run was asked for to change the model. Where training reads the model by another pooling than its
own, the step is held against both readings.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from opencse.analysis.alignment import alignment, positive_sides, uniformity
from opencse.analysis.significance import paired_bootstrap
from opencse.encoder.encoder import SentenceEncoder
from opencse.evaluation import ScoredPairs, distinct, embed, spearman

SPREAD = 1_000
"""Sentences whose pairs the uniformity is taken over, so that following it costs next to nothing."""
NOISE = 0.05
"""Below this p a step is worse than the start by more than the chance of the pairs."""


@dataclass(frozen=True)
class DevScore:
    """What an encoder is worth on the dev pairs.

    Attributes:
        spearman: correlation of cosine and gold score, x 100; what is selected on.
        alignment: of the pairs of high gold score (see `opencse.analysis.alignment`); None if there are none.
        uniformity: of the first ``SPREAD`` distinct sentences; None where a sentence has no vector.
        cosines: of the pairs (n,), for `Dev.worse`; not recorded.
    """

    spearman: float
    alignment: float | None = None
    uniformity: float | None = None
    cosines: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)

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
        cosines = embedded.cosines(pairs.first, pairs.second)
        spearman_ = 100 * spearman(cosines, pairs.scores)
        if not embedded.vectors.any(axis=1).all():
            return DevScore(spearman_, cosines=cosines)  # a text without a token has no direction
        alike = positive_sides(embedded, pairs)
        return DevScore(
            spearman_,
            alignment=None if alike is None else alignment(*alike),
            uniformity=uniformity(embedded.vectors[:SPREAD]),
            cosines=cosines,
        )

    def worse(self, trained: DevScore, start: DevScore) -> bool:
        """Whether ``trained`` is below ``start`` beyond the chance of the pairs (paired bootstrap, two-sided p < .05).

        Without the cosines of both nothing tells noise from a loss: any lower score is worse then.
        """
        if trained.spearman >= start.spearman:
            return False
        if trained.cosines is None or start.cosines is None:
            return True
        found = paired_bootstrap(self.pairs.scores, trained.cosines, start.cosines)
        return found.p is None or found.p < NOISE


@dataclass
class History:
    """The dev scores of a run, by step; step 0 is the start as training takes it up."""

    scores: dict[int, float] = field(default_factory=dict)

    @property
    def best_step(self) -> int:
        """The earliest trained step with the highest score, a later one must be strictly better; 0 before any."""
        trained = [step for step in self.scores if step]
        return max(trained, key=lambda step: (self.scores[step], -step), default=0)

    def add(self, step: int, score: float) -> bool:
        """Notes a score; whether it is the best of the trained steps so far."""
        self.scores[step] = score
        return step > 0 and self.best_step == step


@dataclass(frozen=True)
class Given:
    """The model as it was given, where training reads it by another pooling.

    Attributes:
        pooling: its own.
        spearman: its dev score with that, x 100.
    """

    pooling: str
    spearman: float


@dataclass(frozen=True)
class Choice:
    """What is kept, and why.

    Attributes:
        kept: ``best``, the best trained step; ``start``, the start as training takes it up; ``given``, the model as it
            was given, read by its own pooling.
        verdict: the outcome in one plain sentence.
    """

    kept: Literal["best", "start", "given"]
    verdict: str


def choose(history: History, steps: int, given: Given | None, worse: Callable[[], bool]) -> Choice:
    """Applies the rule of this module.

    Args:
        history: with a score of the start and at least one of a trained step.
        steps: of the run.
        given: the other reading of the start, if there is one.
        worse: whether the best trained step is worse, beyond chance, than the better reading of the start; asked only
            if its score is not above that one's.
    """
    scores = history.scores
    start, best, last = scores[0], scores[history.best_step], scores[max(scores)]
    own = f", with its own pooling {given.pooling} {given.spearman:.2f}" if given else ""
    numbers = f"start {start:.2f}{own}, best {best:.2f} at step {history.best_step:,}, last {last:.2f}"
    other = given is not None and given.spearman > start
    guard = max(start, given.spearman) if given else start
    if best > guard:
        caution = ""
        if history.best_step == max(scores) and steps > 1:
            caution = "; the best is the last evaluation: longer training may help"
        return Choice("best", f"the best model is kept ({numbers}{caution})")
    if not worse():
        compared = "the start with its own pooling" if other else "the start"
        return Choice(
            "best", f"the best trained model is kept: the dev pairs cannot tell it from {compared} ({numbers})"
        )
    if other:
        gained = "training helped, but" if best > start else "training did not help, and"
        return Choice("given", f"{gained} the model with its own pooling is better: that is kept unchanged ({numbers})")
    return Choice("start", f"training did not help on the dev pairs, so the start is kept unchanged ({numbers})")
