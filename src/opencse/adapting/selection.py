"""Decides which checkpoint of a run is kept: dev scores by step, and the interface of everything that selects.

A selector scores the start and, every ``training.evaluate_every`` steps, the trained encoder; at the end its `choose`
keeps the best step or the start. There are two kinds: `opencse.adapting.selection_by_questions` and
`opencse.adapting.selection_by_graded_pairs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from opencse.adapting.trained_texts import TrainedTexts
from opencse.arrays import Flags, Floats

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder


@dataclass(frozen=True)
class DevScore:
    """The score of an encoder on the dev data.

    Attributes:
        value: the score that selects, x 100; higher is better.
        alignment: of graded pairs of high score (see `opencse.analysis.alignment`); None where there are none.
        uniformity: of the first sentences of graded pairs; None where there are none.
        error: standard error of the value's difference from the start's; None where it is not known.
        guard: nDCG@10 x 100 of general questions, which ask in other words than their answers; None without a guard.
        guard_error: standard error of its difference from the start's.
        agreement: how well similarities of held-out texts agree with the start's
            (`opencse.adapting.similarity_guard`); None where the text is English, which questions guard.
        forgets: whether a guard refuses this encoder.
        parts: the values that ``value`` is the mean of, by name.
        share: of the trained weights, where they are averaged with the start's; 1 where they are not, 0 for the start's
            weights alone, with weights of tokens that the start lacks.
        cosines: of graded pairs (n,), for the test of a difference; not recorded.

    Example:
        >>> DevScore(80.0).beats(DevScore(82.0, forgets=True))
        True
    """

    value: float
    alignment: float | None = None
    uniformity: float | None = None
    error: float | None = None
    guard: float | None = None
    guard_error: float | None = None
    agreement: float | None = None
    forgets: bool = False
    parts: dict[str, float] = field(default_factory=dict)
    share: float = 1.0
    cosines: Floats | None = field(default=None, repr=False, compare=False)

    def beats(self, other: DevScore) -> bool:
        """Whether this encoder is kept rather than the other: first the guard decides, then the value."""
        return (not self.forgets, self.value) > (not other.forgets, other.value)

    def named(self, step: int) -> str:
        """What was scored at ``step``, for a verdict.

        >>> DevScore(80.0, share=0.5).named(50), DevScore(80.0, share=0.0).named(50)
        ('the model of step 50, averaged with the start (50% trained),', 'the untrained start with token weights')
        """
        if self.share == 0:
            return "the untrained start with token weights"
        averaged = "" if self.share == 1 else f", averaged with the start ({self.share:.0%} trained),"
        return f"the model of step {step:,}{averaged}"

    def record(self) -> dict[str, float]:
        """Values for the log: ``dev``, and where known its parts, ``dev_error``, ``guard`` and the rest."""
        values = {
            "dev": self.value,
            "dev_alignment": self.alignment,
            "dev_uniformity": self.uniformity,
            "dev_error": self.error,
            "guard": self.guard,
            "agreement": self.agreement,
            "dev_share": None if self.share == 1.0 else self.share,
            **{f"dev_{name}": value for name, value in self.parts.items()},
        }
        return {name: value for name, value in values.items() if value is not None}


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
        """The earliest trained step with the highest value among those that the guard accepts; 0 if there is none."""
        trained = [step for step, score in self.by_step.items() if step and not score.forgets]
        return max(trained, key=lambda step: (self.by_step[step].value, -step), default=0)

    @property
    def without_gain(self) -> int:
        """How many evaluations there were after the best trained step; all of them if the guard accepts no step."""
        best = self.best_step
        return sum(step > best for step in self.by_step)

    def add(self, step: int, score: DevScore) -> bool:
        """Adds a score, and returns whether it is the best of the trained steps so far."""
        self.by_step[step] = replace(score, cosines=None)
        return step > 0 and self.best_step == step


@dataclass(frozen=True)
class OwnPoolingScore:
    """The score of the start with its own pooling, where training uses another one.

    Attributes:
        pooling: the model's own.
        value: its dev score with that, x 100.
    """

    pooling: str
    value: float


def start_kept(which: Literal["start", "given"], own_pooling: OwnPoolingScore | None) -> str:
    """Says that the start is kept, and whether that is the model as it was given."""
    if which == "given" or own_pooling is None:
        return "the start is kept unchanged"
    return f"the start is kept without its own pooling {own_pooling.pooling}"


@dataclass(frozen=True)
class Choice:
    """The encoder that is kept, and why.

    Attributes:
        kept: ``best``, the best that training found; ``start``, the start with the recipe's pooling, which is the model
            as it was given unless it has a pooling of its own; ``given``, the start with that.
        verdict: the outcome in one plain sentence.
    """

    kept: Literal["best", "start", "given"]
    verdict: str


@runtime_checkable
class Selector(Protocol):
    """Selects the encoder to keep."""

    @property
    def name(self) -> str:
        """The name of the dev data, for the user."""

    @property
    def measure(self) -> str:
        """The name of the score, for the user: for example ``Spearman x 100``."""

    @property
    def size(self) -> str:
        """How much dev data there is, for the user: for example ``150 pairs``."""

    @property
    def left_out(self) -> Flags | None:
        """(M,) rows of the text that must not be trained on; None where there are none."""

    def forbidden_texts(self) -> Iterable[str]:
        """Texts that must not be trained on; empty where they are held out of the training text already."""

    def without(self, trained: TrainedTexts) -> tuple[Selector, list[str]]:
        """Drops what also occurs in the training text, and returns lines for the user that say how much that is.

        Raises:
            UserError: where too little is left to select by.
        """

    def fingerprint(self) -> str:
        """A hash of the dev data; equal fingerprints give an encoder the same score."""

    def begin(self, start: SentenceEncoder) -> DevScore:
        """Scores the start, which the others are compared with; called once, before `score`."""

    def score(self, encoder: SentenceEncoder) -> DevScore:
        """Scores an encoder."""

    def worse(self, trained: DevScore, start: DevScore) -> bool:
        """Whether the score ``trained`` is below ``start`` by more than this selector tolerates."""

    def choose(
        self, history: History, steps: int, own_pooling: OwnPoolingScore | None, is_worse: Callable[[], bool]
    ) -> Choice:
        """Decides at the end of a run which encoder is kept.

        Args:
            history: with a score of the start and of at least one trained step.
            steps: of the run.
            own_pooling: the score of the start with its own pooling, if training uses another one.
            is_worse: evaluates whether the best trained step is worse than the start with the better pooling; slow.
        """
