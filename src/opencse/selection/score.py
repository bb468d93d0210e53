"""What choosing asks of whoever judges: a number for every encoder of a run, and the outcome in words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from opencse.encoder.encoder import SentenceEncoder


@dataclass(frozen=True)
class DevScore:
    """What an encoder is worth to whoever chooses.

    Attributes:
        value: what is chosen by, x 100; higher is better.
        alignment: of graded pairs of high score (see `opencse.analysis.alignment`); None where there are none.
        uniformity: of the first sentences of graded pairs; None where there are none.
        error: standard error of the value's difference from the start's; None where it is not known.
        guard: Spearman x 100 on the general pairs that watch for forgetting; None without a guard.
        forgets: whether the guard refuses this encoder.
        parts: what the value is made of, by name.
    """

    value: float
    alignment: float | None = None
    uniformity: float | None = None
    error: float | None = None
    guard: float | None = None
    forgets: bool = False
    parts: dict[str, float] = field(default_factory=dict)

    def record(self) -> dict[str, float]:
        """For the log: ``dev``, and where known its parts, ``dev_error``, ``guard`` and the rest."""
        found = {
            "dev": self.value,
            "dev_alignment": self.alignment,
            "dev_uniformity": self.uniformity,
            "dev_error": self.error,
            "guard": self.guard,
            **{f"dev_{name}": value for name, value in self.parts.items()},
        }
        return {name: value for name, value in found.items() if value is not None}


@dataclass
class History:
    """The scores of a run, by step; step 0 is the model as it was given."""

    found: dict[int, DevScore] = field(default_factory=dict)

    @property
    def scores(self) -> dict[int, float]:
        """The value by step."""
        return {step: score.value for step, score in self.found.items()}

    @property
    def best_step(self) -> int:
        """The earliest step with the highest value among those that the guard lets pass."""
        passed = [step for step, score in self.found.items() if not score.forgets]
        return max(passed, key=lambda step: (self.found[step].value, -step))

    def add(self, step: int, score: DevScore) -> bool:
        """Notes a score; whether it is the best so far."""
        self.found[step] = score
        return self.best_step == step

    def verdict(self, steps: int) -> str:
        """The outcome in one plain sentence."""
        scores = self.scores
        start, best, last = scores[0], scores[self.best_step], scores[max(scores)]
        numbers = f"start {start:.2f}, best {best:.2f} at step {self.best_step:,}, last {last:.2f}"
        if self.best_step == 0:
            return f"training did not help on the dev pairs, so the start is kept unchanged ({numbers})"
        caution = ""
        if self.best_step == max(scores) and steps > 1:
            caution = "; the best is the last evaluation: longer training may help"
        return f"the best model is kept ({numbers}{caution})"


class Selector(Protocol):
    """Whoever chooses among the encoders of a run."""

    @property
    def name(self) -> str:
        """What a person calls it."""

    @property
    def measure(self) -> str:
        """What the value is, for a person: ``Spearman x 100`` and the like."""

    @property
    def size(self) -> str:
        """What it asks, for a person: ``150 pairs`` and the like."""

    @property
    def left_out(self) -> NDArray[np.bool_] | None:
        """(M,) rows of the text that training must not touch; None where there are none."""

    def begin(self, start: SentenceEncoder) -> DevScore:
        """Judges the model as it was given, with which the others are compared; called once before `score`."""

    def score(self, encoder: SentenceEncoder) -> DevScore:
        """Judges an encoder."""

    def verdict(self, history: History, steps: int) -> str:
        """The outcome of a run in one plain sentence."""
