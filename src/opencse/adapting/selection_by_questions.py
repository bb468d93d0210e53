"""Selects the encoder that answers questions best, compared with the start, and refuses one that lost what it knew.

The rule: the trained step with the highest mean value is kept if it is above the start's, however little. A gain that
may be noise is reported as such and kept all the same. A step that the guard refuses is never kept: where a text asks
about itself, less of other words may be lost (`Guard.refuses`); the verdict gives both scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from opencse.adapting.guard import Guard
from opencse.adapting.selection import Choice, DevScore, History, OwnPoolingScore, start_kept
from opencse.adapting.similarity_guard import LEAST, SimilarityGuard
from opencse.adapting.trained_texts import TrainedTexts
from opencse.arrays import Flags, Floats, Integers
from opencse.io import hash_json
from opencse.statistics.grouped import MeanDifference, grouped_difference

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder

_OTHER_WORDS = "in other words (general English questions that share few words with their answers)"


class Questions(Protocol):
    """Questions with known answers.

    Attributes:
        name: for the user.
        source: where the questions are from, within a sentence.
        measure: the measure that scores the rank of an answer.
        size: how many questions and candidates there are, for the user.
        units: (n,) document that each question comes from; questions of one document are not independent.
        kinds: (n,) number of the kind of each question, from 0.
        left_out: (M,) rows of the training text that must not be trained on; None where there are none.
        own_words: whether a text asks them about itself, so that they share its words.
        unknown: what these questions cannot show, in a clause.
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
    def kinds(self) -> Integers: ...  # noqa: D102

    @property
    def left_out(self) -> Flags | None: ...  # noqa: D102

    @property
    def own_words(self) -> bool: ...  # noqa: D102

    @property
    def unknown(self) -> str: ...  # noqa: D102

    def held_out(self) -> list[str]:
        """Texts of the questions and answers, which are not trained on."""

    def forbidden_texts(self) -> Iterable[str]:
        """Texts that must not be trained on; see `Selector.forbidden_texts`."""

    def without(self, trained: TrainedTexts) -> tuple[Questions, list[str]]:
        """Drops the questions that also occur in the training text; see `Selector.without`."""

    def fingerprint(self) -> str:
        """A hash of the questions and their answers."""

    def values(self, encoder: SentenceEncoder) -> Floats:
        """(n,) the measure of each question with this encoder, x 100."""

    def parts(self, values: Floats) -> dict[str, float]:
        """Means by kind of question; empty where there is one kind."""


class _Values(NamedTuple):
    """What is computed of an encoder.

    Attributes:
        questions: (n,) the measure of each question.
        general: the measure of each general question.
        similarities: of the texts of the language guard, each with each.
    """

    questions: Floats
    general: Floats | None
    similarities: Floats | None


@dataclass
class QuestionSelector:
    """Selects the encoder that answers best on average, unless the guard finds that it forgot too much.

    Attributes:
        questions: with known answers.
        guard: general questions that guard against forgetting (`opencse.adapting.guard`), or None.
        language_guard: similarities of texts in another language than English, which guard that language, or None.
    """

    questions: Questions
    guard: Guard | None = None
    language_guard: SimilarityGuard | None = None
    _start_values: _Values | None = field(default=None, init=False, repr=False)
    _language_known: bool = field(default=True, init=False, repr=False)

    @property
    def name(self) -> str:
        """The name of the questions, for the user."""
        return self.questions.name

    @property
    def measure(self) -> str:
        """The name of the score."""
        return f"{self.questions.measure} x 100"

    @property
    def size(self) -> str:
        """How many questions there are, and what guards against forgetting."""
        guards = [
            *([] if self.guard is None else [f"{len(self.guard):,} general English questions"]),
            *([] if self.language_guard is None else [self.language_guard.name]),
        ]
        if not guards:
            return self.questions.size
        return f"{self.questions.size}; {' and '.join(guards)} guard against forgetting"

    @property
    def left_out(self) -> Flags | None:
        """(M,) rows of the text that must not be trained on."""
        return self.questions.left_out

    def forbidden_texts(self) -> list[str]:
        """Texts that must not be trained on, the guard's included."""
        return [*self.questions.forbidden_texts(), *(() if self.guard is None else self.guard.forbidden_texts())]

    def without(self, trained: TrainedTexts) -> tuple[QuestionSelector, list[str]]:
        """Drops the questions that also occur in the training text; the guard may be dropped altogether."""
        questions, notes = self.questions.without(trained)
        guard, guard_notes = (None, []) if self.guard is None else self.guard.without(trained)
        language_guard = None if self.language_guard is None else self.language_guard.without(trained)
        return QuestionSelector(questions, guard, language_guard), [*notes, *guard_notes]

    def fingerprint(self) -> str:
        """A hash of the questions and of what guards against forgetting."""
        guards = ["" if one is None else one.fingerprint() for one in (self.guard, self.language_guard)]
        return hash_json([self.questions.fingerprint(), *(guards if self.language_guard is not None else guards[:1])])

    def begin(self, start: SentenceEncoder) -> DevScore:
        """Scores the start, which the others are compared with."""
        values = self._values(start)
        self._start_values = values
        self._language_known = self.language_guard is None or self.language_guard.known_by(start)
        return self._compared(values, values)

    def score(self, encoder: SentenceEncoder) -> DevScore:
        """Scores an encoder, compared with the start."""
        assert self._start_values is not None, "call begin with the start first"
        return self._compared(self._start_values, self._values(encoder))

    def _values(self, encoder: SentenceEncoder) -> _Values:
        return _Values(
            self.questions.values(encoder),
            None if self.guard is None else self.guard.values(encoder),
            None if self.language_guard is None else self.language_guard.values(encoder),
        )

    def _compared(self, before: _Values, after: _Values) -> DevScore:
        general = change = agreement = None
        refused = False
        if self.guard is not None and before.general is not None and after.general is not None:
            general, change = float(after.general.mean()), self.guard.compare(before.general, after.general)
            refused = self.guard.refuses(change, own_words=self.questions.own_words)
        if self.language_guard is not None and before.similarities is not None and after.similarities is not None:
            agreement = self.language_guard.agreement(before.similarities, after.similarities)
        error = grouped_difference(before.questions, after.questions, self.questions.units, self.questions.kinds).error
        return DevScore(
            float(after.questions.mean()),
            error=error if math.isfinite(error) else None,
            guard=general,
            guard_error=None if change is None else change.error,
            agreement=agreement,
            forgets=refused or self._moved_too_far(agreement),
            parts=self.questions.parts(after.questions),
        )

    def worse(self, trained: DevScore, start: DevScore) -> bool:
        """Whether ``trained`` answers worse on average, or has forgotten too much."""
        return trained.value < start.value or trained.forgets

    def choose(
        self, history: History, steps: int, own_pooling: OwnPoolingScore | None, is_worse: Callable[[], bool]
    ) -> Choice:
        """Keeps the best trained step if it answers better than the start with either pooling; else the start.

        The verdict names the measure, the gain with its interval, and what the questions cannot show.
        """
        del steps, is_worse
        start, step = history.by_step[0], history.best_step
        before = start.value if own_pooling is None else max(start.value, own_pooling.value)
        words = ", in its words," if self.questions.own_words else ""
        measured = (
            f"{self.questions.measure} of {len(self.questions.units):,} questions from {self.questions.source}{words}"
        )
        with_own = ""
        if own_pooling is not None:
            with_own = f" (with its own pooling {own_pooling.pooling} {own_pooling.value:.2f})"
        if not step or history.by_step[step].value <= before:
            untrained: Literal["start", "given"] = "given" if before > start.value else "start"
            scores = f"{measured}: start {start.value:.2f}{with_own}"
            return Choice(untrained, self._refusal(history, before, scores, start_kept(untrained, own_pooling)))
        best = history.by_step[step]
        gain = _with_interval(best.value - start.value, best.error)
        general = ""
        if best.guard is not None and start.guard is not None:
            change = _with_interval(best.guard - start.guard, best.guard_error)
            less = best.guard < start.guard and "noise" not in change
            change += ": queries in other words than your documents' may find less" if less else ""
            general = f"; {_OTHER_WORDS} {start.guard:.2f} before, {best.guard:.2f} now ({change})"
        if best.agreement is not None:
            general += f"; {self._similarities} agree to {best.agreement:.0f} % with the start's"
            general += "" if self._language_known else ", which knows little of their language"
        return Choice(
            "best",
            f"{best.named(step)} is kept: {measured} {start.value:.2f} before{with_own}, "
            f"{best.value:.2f} now ({gain}{_by_kind(start, best)}){general}; {self.questions.unknown}",
        )

    def _moved_too_far(self, agreement: float | None) -> bool:
        return self._language_known and agreement is not None and agreement < LEAST

    @property
    def _similarities(self) -> str:
        return "" if self.language_guard is None else self.language_guard.name

    def _refusal(self, history: History, before: float, measured: str, kept: str) -> str:
        """The verdict where the start is kept."""
        start = history.by_step[0]
        step = max(filter(None, history.by_step), key=lambda step: history.by_step[step].value)
        best = history.by_step[step]
        scores = f"{measured}, best of training {best.value:.2f} at step {step:,}"
        if best.value <= before or not best.forgets:
            return f"{kept}: no trained encoder answers better ({scores})"
        if self._moved_too_far(best.agreement):
            why = f"moved too far: {self._similarities} agree to {best.agreement:.0f} % with the start's"
        else:
            why = f"lost {_OTHER_WORDS} ({start.guard:.2f} before, {best.guard:.2f} after)"
        return f"{kept}: training gained ({scores}) but {why}; try a lower training.learning_rate"


def _with_interval(change: float, error: float | None) -> str:
    """A change in words, with its interval."""
    if error is None:
        return f"{change:+.2f}, all from one document, so it may be noise"
    low, high = MeanDifference(change, error).interval
    noise = ", so it may be noise" if low <= 0 <= high else ""
    return f"{change:+.2f}, 95% interval {low:+.2f} to {high:+.2f}{noise}"


def _by_kind(before: DevScore, after: DevScore) -> str:
    """The scores of each kind of question in words, where there are several."""
    if len(after.parts) < 2:
        return ""
    kinds = ", ".join(
        f"{name.replace('_', ' ').replace('crops', 'sentence parts')} "
        f"{before.parts.get(name, math.nan):.2f} to {value:.2f}"
        for name, value in after.parts.items()
    )
    return f"; {kinds}"
