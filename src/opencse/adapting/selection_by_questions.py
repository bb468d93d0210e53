"""Choosing by questions: who finds the answers, beside the start, and has not forgotten what it knew."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from opencse.adapting.guard import Guard
from opencse.adapting.holdout import Flags
from opencse.adapting.selection import Choice, DevScore, History, OwnPoolingScore
from opencse.adapting.trained_texts import TrainedTexts
from opencse.arrays import Floats, Integers
from opencse.encoder.encoder import SentenceEncoder
from opencse.io import hash_json
from opencse.statistics.grouped import MeanDifference, grouped_difference


class Questions(Protocol):
    """Questions with known answers.

    Attributes:
        name: what the user calls them.
        source: where the questions are from, within a sentence.
        measure: what an answer's rank is worth.
        size: what is asked, for the user.
        units: (n,) where each question comes from; those of one unit are not independent.
        left_out: (M,) rows of the training text that training must not touch; None where there are none.
        unknown: what they cannot tell, in a clause.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - see above

    @property
    def source(self) -> str: ...  # noqa: D102

    @property
    def measure(self) -> str: ...  # noqa: D102

    @property
    def size(self) -> str: ...  # noqa: D102

    @property
    def units(self) -> Integers: ...  # noqa: D102

    @property
    def left_out(self) -> Flags | None: ...  # noqa: D102

    @property
    def unknown(self) -> str: ...  # noqa: D102

    def held_out(self) -> list[str]:
        """Texts that are asked about and not trained on."""

    def asked(self) -> Iterable[str]:
        """The texts that must not be trained on; see `Selector.asked`."""

    def without(self, trained: TrainedTexts) -> tuple[Questions, list[str]]:
        """The same without the questions that are trained on; see `Selector.without`."""

    def fingerprint(self) -> str:
        """A hash of the questions and their answers."""

    def values(self, encoder: SentenceEncoder) -> Floats:
        """(n,) what each question's answer is worth by this encoder, x 100."""

    def parts(self, values: Floats) -> dict[str, float]:
        """Means by kind of question; empty where there is one kind."""


@dataclass
class QuestionSelector:
    """Chooses the encoder that answers best on average, unless it forgot what the guard asks.

    A gain within the noise of the questions is kept all the same, and said to be so: the start has no claim to be
    kept. What the guard refuses (see `opencse.adapting.guard.Guarded`) is never kept.

    Attributes:
        questions: what is asked.
        guard: general questions that watch for forgetting, or None.
    """

    questions: Questions
    guard: Guard | None = None
    _before: tuple[Floats, Floats | None] | None = field(default=None, init=False, repr=False)

    @property
    def name(self) -> str:
        """What the user calls the questions."""
        return self.questions.name

    @property
    def measure(self) -> str:
        """What the value is."""
        return f"{self.questions.measure} x 100"

    @property
    def size(self) -> str:
        """What is asked, and who watches."""
        guard = "" if self.guard is None else f"; {len(self.guard):,} general questions watch for forgetting"
        return f"{self.questions.size}{guard}"

    @property
    def left_out(self) -> Flags | None:
        """(M,) rows of the text that training must not touch."""
        return self.questions.left_out

    def asked(self) -> list[str]:
        """The texts that must not be trained on, the guard's included."""
        return [*self.questions.asked(), *(() if self.guard is None else self.guard.asked())]

    def without(self, trained: TrainedTexts) -> tuple[QuestionSelector, list[str]]:
        """The same without the questions that are trained on; general ones may be left out altogether."""
        questions, told = self.questions.without(trained)
        guard, of_guard = (None, []) if self.guard is None else self.guard.without(trained)
        return QuestionSelector(questions, guard), [*told, *of_guard]

    def fingerprint(self) -> str:
        """A hash of the questions and the guard's."""
        told = [self.questions.fingerprint(), "" if self.guard is None else self.guard.fingerprint()]
        return hash_json(told)

    def begin(self, start: SentenceEncoder) -> DevScore:
        """Evaluates the model as it was given, with which the others are compared."""
        self._before = (self.questions.values(start), None if self.guard is None else self.guard.values(start))
        return self._compared(*self._before)

    def score(self, encoder: SentenceEncoder) -> DevScore:
        """Evaluates an encoder, beside the start.

        Raises:
            RuntimeError: before `begin`.
        """
        values = self.questions.values(encoder)
        return self._compared(values, None if self.guard is None else self.guard.values(encoder))

    def _compared(self, values: Floats, general: Floats | None) -> DevScore:
        if self._before is None:
            raise RuntimeError("begin evaluates the start, and comes first")
        before, general_before = self._before
        guarded = None
        if self.guard is not None and general is not None and general_before is not None:
            guarded = self.guard.compare(general_before, general)
        error = grouped_difference(before, values, self.questions.units).error
        return DevScore(
            float(values.mean()),
            error=error if math.isfinite(error) else None,
            guard=None if guarded is None else guarded.value,
            forgets=guarded is not None and guarded.forgets,
            parts=self.questions.parts(values),
        )

    def worse(self, trained: DevScore, start: DevScore) -> bool:
        """Whether ``trained`` answers worse on average, or has forgotten too much."""
        return trained.value < start.value or trained.forgets

    def choose(self, history: History, steps: int, given: OwnPoolingScore | None, worse: Callable[[], bool]) -> Choice:
        """The best trained step if it answers better than every reading of the start, however little; else the start.

        The verdict says by which measure, how much with its interval, and what it cannot know.
        """
        del steps, worse
        start, step = history.by_step[0], history.best_step
        before = max(start.value, start.value if given is None else given.value)
        asked = f"{self.questions.measure} of {len(self.questions.units):,} questions from {self.questions.source}"
        own = "" if given is None else f" (with its own pooling {given.pooling} {given.value:.2f})"
        if not step or history.by_step[step].value <= before:
            untrained: Literal["start", "given"] = "given" if given is not None and before > start.value else "start"
            return Choice(untrained, self._refusal(history, before, f"{asked}: start {start.value:.2f}{own}"))
        kept = history.by_step[step]
        gained = f"{kept.value - start.value:+.2f}"
        if kept.error is None:
            gained += ", of one text alone, so it may be noise"
        else:
            low, high = MeanDifference(kept.value - start.value, kept.error).interval
            gained += f", 95% interval {low:+.2f} to {high:+.2f}{'' if low > 0 else ', so it may be noise'}"
        shared = "" if kept.share == 1.0 else f", averaged with the start ({kept.share:.0%} trained),"
        guard = ""
        if kept.guard is not None and start.guard is not None:
            guard = f"; on general questions {start.guard:.2f} before, {kept.guard:.2f} now"
        return Choice(
            "best",
            f"the model of step {step:,}{shared} is kept: {asked} {start.value:.2f} before{own}, {kept.value:.2f} now "
            f"({gained}{guard}); "
            f"{self.questions.unknown}",
        )

    def _refusal(self, history: History, before: float, found: str) -> str:
        start = history.by_step[0]
        trained = {step: score for step, score in history.by_step.items() if step}
        best = max(trained, key=lambda step: trained[step].value)
        found = f"{found}, best of training {trained[best].value:.2f} at step {best:,}"
        if trained[best].value > before and start.guard is not None:
            return (
                f"the start is kept unchanged: training gained ({found}) but forgot general English (guard "
                f"{start.guard:.2f}, then {trained[best].guard:.2f}); try a lower training.learning_rate"
            )
        return f"the start is kept unchanged: nothing that training made answers better ({found})"
