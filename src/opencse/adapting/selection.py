"""What choosing asks of whoever evaluates: a number for every encoder of a run, and the outcome in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from opencse.adapting.trained_texts import TrainedTexts
from opencse.encoder.encoder import SentenceEncoder


@dataclass(frozen=True)
class DevScore:
    """What an encoder is worth to whoever chooses.

    Attributes:
        value: what is chosen by, x 100; higher is better.
        alignment: of graded pairs of high score (see `opencse.analysis.alignment`); None where there are none.
        uniformity: of the first sentences of graded pairs; None where there are none.
        error: standard error of the value's difference from the start's; None where it is not known.
        guard: nDCG@10 x 100 of the general questions that watch for forgetting; None without a guard.
        forgets: whether the guard refuses this encoder.
        parts: what the value is made of, by name.
        share: of the trained weights, where they are averaged with the start's; 1 where they are not.
        cosines: of graded pairs (n,), to tell noise from a loss; not recorded.
    """

    value: float
    alignment: float | None = None
    uniformity: float | None = None
    error: float | None = None
    guard: float | None = None
    forgets: bool = False
    parts: dict[str, float] = field(default_factory=dict)
    share: float = 1.0
    cosines: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)

    def beats(self, other: DevScore) -> bool:
        """Whether this encoder is to be kept rather than the other: the guard comes first, then the value."""
        return (not self.forgets, self.value) > (not other.forgets, other.value)

    def record(self) -> dict[str, float]:
        """For the log: ``dev``, and where known its parts, ``dev_error``, ``guard`` and the rest."""
        found = {
            "dev": self.value,
            "dev_alignment": self.alignment,
            "dev_uniformity": self.uniformity,
            "dev_error": self.error,
            "guard": self.guard,
            "dev_share": None if self.share == 1.0 else self.share,
            **{f"dev_{name}": value for name, value in self.parts.items()},
        }
        return {name: value for name, value in found.items() if value is not None}


@dataclass
class History:
    """The dev scores of a run, by step; step 0 is the start.

    Example:
        >>> history = History({0: DevScore(27.9)})
        >>> history.add(50, DevScore(82.1)), history.add(75, DevScore(80.4)), history.best_step
        (True, False, 50)
    """

    by_step: dict[int, DevScore] = field(default_factory=dict)

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> History:
        """The history in a checkpoint; see `plain`."""
        return cls({int(step): DevScore(**score) for step, score in values["found"].items()})

    def plain(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        return {"found": {step: asdict(score) for step, score in self.by_step.items()}}

    @property
    def scores(self) -> dict[int, float]:
        """The value by step."""
        return {step: score.value for step, score in self.by_step.items()}

    @property
    def best_step(self) -> int:
        """The earliest trained step with the highest value among those that the guard lets pass; 0 before any."""
        trained = [step for step, score in self.by_step.items() if step and not score.forgets]
        return max(trained, key=lambda step: (self.by_step[step].value, -step), default=0)

    def add(self, step: int, score: DevScore) -> bool:
        """Notes a score; whether it is the best of the trained steps so far."""
        self.by_step[step] = replace(score, cosines=None)
        return step > 0 and self.best_step == step


@dataclass(frozen=True)
class OwnPoolingScore:
    """The model as it was given, where training reads it by another pooling.

    Attributes:
        pooling: its own.
        value: its dev score with that, x 100.
    """

    pooling: str
    value: float


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


@runtime_checkable
class Selector(Protocol):
    """Whoever chooses among the encoders of a run."""

    @property
    def name(self) -> str:
        """What the user calls it."""

    @property
    def measure(self) -> str:
        """What the value is, for the user: ``Spearman x 100`` and the like."""

    @property
    def size(self) -> str:
        """What it asks, for the user: ``150 pairs`` and the like."""

    @property
    def left_out(self) -> NDArray[np.bool_] | None:
        """(M,) rows of the text that training must not touch; None where there are none."""

    def asked(self) -> Iterable[str]:
        """The texts that must not be trained on; none where what is asked about is held out of the text itself."""

    def without(self, trained: TrainedTexts) -> tuple[Selector, list[str]]:
        """The same without the questions that are trained on, and lines for the user that say how many they are.

        Raises:
            UserError: where too few questions are left to choose by.
        """

    def fingerprint(self) -> str:
        """A hash of all that is asked; equal fingerprints give an encoder the same value."""

    def begin(self, start: SentenceEncoder) -> DevScore:
        """Evaluates the model as it was given, with which the others are compared; called once before `score`."""

    def score(self, encoder: SentenceEncoder) -> DevScore:
        """Evaluates an encoder."""

    def worse(self, trained: DevScore, start: DevScore) -> bool:
        """Whether ``trained`` is below ``start``, as far as whoever chooses cares."""

    def choose(self, history: History, steps: int, given: OwnPoolingScore | None, worse: Callable[[], bool]) -> Choice:
        """What is kept of a run.

        Args:
            history: with a score of the start and at least one of a trained step.
            steps: of the run.
            given: the other reading of the start, if there is one.
            worse: whether the best trained step is worse than the better reading of the start; costs an evaluation.
        """
