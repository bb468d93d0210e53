"""Which checkpoint of a run is kept: dev scores by step, and selection by graded pairs or transfer tasks.

A selector scores the start and, every ``training.evaluate_every`` steps, the trained encoder; at the end its `choose`
keeps the best step or the start. Questions with known answers select too: `opencse.training.questions`.

The rule: the best trained step is kept, unless the start is better by more than chance. A step above the start is kept,
and so is one within the noise below it: a few general pairs cannot distinguish two models of nearly equal score, and
the purpose of the run is to change the model (`opencse.adapt`, which promises never to make a model worse, keeps none
that is not above the start). Where training uses another pooling than the model's own, the step is compared with the
start with both poolings.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from opencse.analysis.geometry import alignment, positive_sides, uniformity
from opencse.arrays import Flags, Floats
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.evaluation import ScoredPairs, spearman
from opencse.evaluation.embedding import distinct, embed
from opencse.evaluation.transfer import Transfer, TransferData
from opencse.files import hash_json
from opencse.numerals import number_of
from opencse.statistics import paired_bootstrap
from opencse.text.scripts import normalised

_FIRST_WORD = re.compile(r"\w+")


def rows_without(rows: Sequence[tuple[str, ...]], texts: Iterable[str]) -> list[tuple[str, ...]]:
    """The rows in which none of ``texts`` occurs; letter case and punctuation do not matter.

    Example:
        >>> rows_without([("A dog.", "An animal."), ("Rain.", "Snow.")], ["RAIN"])
        [('A dog.', 'An animal.')]
    """
    keys = {normalised(text) for text in texts}
    if not keys:
        return list(rows)

    @cache  # a text is in many rows
    def occurs(text: str) -> bool:
        return normalised(text) in keys

    return [row for row in rows if not any(map(occurs, row))]


@dataclass(frozen=True)
class TrainedTexts:
    """Texts of the dev data that also occur in the training text; letter case and punctuation do not matter.

    Attributes:
        texts: normalised texts that occur in the training text.
        together: pairs of them that occur in one training row.

    Example:
        >>> rows = [("A dog.", "An animal."), ("Rain.", "Snow.")]
        >>> trained = TrainedTexts.among(rows, ["a dog", "an animal", "sun"])
        >>> "A DOG!" in trained, "Sun" in trained, trained.pair("an animal", "a dog")
        (True, False, True)
    """

    texts: frozenset[str] = frozenset()
    together: frozenset[frozenset[str]] = frozenset()

    @classmethod
    def among(cls, rows: Iterable[tuple[str, ...]], dev_texts: Iterable[str]) -> TrainedTexts:
        """Looks up ``dev_texts`` in the training rows, which are read one by one."""
        wanted_keys = {normalised(text) for text in dev_texts}
        first_words = {text.split(" ", 1)[0] for text in wanted_keys}
        texts: set[str] = set()
        together: set[frozenset[str]] = set()

        def key_of(text: str) -> str | None:
            """The normalised text if it is a dev text; the first word rules most texts out quickly."""
            word = _FIRST_WORD.search(text)
            if word is not None and word[0].casefold() not in first_words:
                return None
            key = normalised(text)
            return key if key in wanted_keys else None

        for row in rows:
            keys = [key for key in map(key_of, row) if key is not None]
            texts.update(keys)
            together.update(frozenset(two) for two in combinations(keys, 2))
        return cls(frozenset(texts), frozenset(together))

    def __contains__(self, text: str) -> bool:
        return normalised(text) in self.texts

    def pair(self, first: str, second: str) -> bool:
        """Whether both texts occur in one training row."""
        return frozenset((normalised(first), normalised(second))) in self.together


@dataclass(frozen=True)
class DevScore:
    """The score of an encoder on the dev data.

    Attributes:
        value: the score that selects, x 100; higher is better.
        alignment: of graded pairs of high score (see `opencse.analysis.geometry`); None where there are none.
        uniformity: of the first sentences of graded pairs; None where there are none.
        error: standard error of the value's difference from the start's; None where it is not known.
        guard: nDCG@10 x 100 of general questions, which ask in other words than their answers; None without a guard.
        guard_error: standard error of its difference from the start's.
        agreement: how well similarities of held-out texts agree with the start's
            (`opencse.training.questions`); None where the text is English, which questions guard.
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


class Selector(ABC):
    """Selects the encoder to keep."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the dev data, for the user."""

    @property
    @abstractmethod
    def measure(self) -> str:
        """The name of the score, for the user: for example ``Spearman x 100``."""

    @property
    @abstractmethod
    def size(self) -> str:
        """How much dev data there is, for the user: for example ``150 pairs``."""

    @property
    def left_out(self) -> Flags | None:
        """(M,) rows of the text that must not be trained on; None where there are none."""
        return None

    def forbidden_texts(self) -> Iterable[str]:
        """Texts that must not be trained on; empty where they are held out of the training text already."""
        return ()

    def without(self, trained: TrainedTexts) -> tuple[Selector, list[str]]:
        """Drops what also occurs in the training text, and returns lines for the user that say how much that is.

        Raises:
            UserError: where too little is left to select by.
        """
        del trained
        return self, []

    @abstractmethod
    def fingerprint(self) -> str:
        """A hash of the dev data; equal fingerprints give an encoder the same score."""

    def begin(self, start: SentenceEncoder) -> DevScore:
        """Scores the start, which the others are compared with; called once, before `score`."""
        return self.score(start)

    @abstractmethod
    def score(self, encoder: SentenceEncoder) -> DevScore:
        """Scores an encoder."""

    @abstractmethod
    def worse(self, trained: DevScore, start: DevScore) -> bool:
        """Whether the score ``trained`` is below ``start`` by more than this selector tolerates."""

    def choose(
        self, history: History, steps: int, own_pooling: OwnPoolingScore | None, is_worse: Callable[[], bool]
    ) -> Choice:
        """Decides at the end of a run which encoder is kept, by default by the rule of this module (`choose`).

        Args:
            history: with a score of the start and of at least one trained step.
            steps: of the run.
            own_pooling: the score of the start with its own pooling, if training uses another one.
            is_worse: evaluates whether the best trained step is worse than the start with the better pooling; slow.
        """
        return choose(history, steps, own_pooling, is_worse, data=self.data_in_words)

    data_in_words = "dev pairs"
    """What the scores are computed on, for the verdict."""


SPREAD = 1_000
"""Sentences that the uniformity is computed over; few, so that it takes no time."""
NOISE = 0.05
"""Below this p a step counts as worse than the start."""


def doubt_on(count: int) -> str:
    """A clause about fewer than ten graded pairs or queries; empty for more."""
    return ", too few to tell weights apart" if count < 10 else ""


@dataclass(frozen=True)
class GradedPairSelector(Selector):
    """Selects by Spearman x 100 of cosine and gold score.

    Attributes:
        called: the name of the pairs, for the user.
        pairs: sentences and gold scores.
        strict: refuse any step that is not above the start, within the noise too.

    Example:
        >>> import numpy as np
        >>> texts = ["A dog runs.", "It rains.", "A cat sleeps."]
        >>> others = ["A dog is running.", "The sun shines.", "Stocks fell."]
        >>> selector = GradedPairSelector("three", ScoredPairs("three", np.array([5.0, 3.0, 0.0]), texts, others))
        >>> round(selector.score(SentenceEncoder.load()).value, 1)
        100.0
    """

    called: str
    pairs: ScoredPairs
    strict: bool = False

    @property
    def name(self) -> str:
        """The name of the pairs."""
        return self.called

    def forbidden_texts(self) -> list[str]:
        """All sentences."""
        return [*self.pairs.first, *self.pairs.second]

    def without(self, trained: TrainedTexts) -> tuple[GradedPairSelector, list[str]]:
        """Drops the pairs that are trained on as pairs; a sentence alone does not reveal the gold score.

        Raises:
            UserError: where fewer than two pairs are left.
        """
        pairs = self.pairs
        rows = enumerate(zip(pairs.first, pairs.second, strict=True))
        remaining = [row for row, two in rows if not trained.pair(*two)]
        dropped = len(pairs) - len(remaining)
        if not dropped:
            return self, []
        if len(remaining) < 2:
            raise UserError(
                f"{self.name}: {dropped:,} of {len(pairs):,} pairs are trained on too, so they cannot select; select "
                "by other pairs (--dev)"
            )
        selected = ScoredPairs(
            pairs.name,
            pairs.scores[remaining],
            [pairs.first[row] for row in remaining],
            [pairs.second[row] for row in remaining],
        )
        note = f"{dropped:,} of {len(pairs):,} graded pairs are also in the training text and are ignored"
        return replace(self, pairs=selected), [f"pairs      {note}"]

    def fingerprint(self) -> str:
        """A hash of the sentences and their gold scores, 64 hexadecimal digits."""
        return self.pairs.fingerprint()

    @property
    def measure(self) -> str:
        """The name of the score."""
        return "Spearman x 100"

    @property
    def size(self) -> str:
        """How many pairs there are."""
        return number_of(len(self.pairs), "pair") + doubt_on(len(self.pairs))

    def score(self, encoder: SentenceEncoder) -> DevScore:
        """Scores ``encoder``; each sentence is encoded once, in float32."""
        pairs = self.pairs
        embedded = embed(encoder.encode, distinct([pairs.first, pairs.second]))
        cosines = embedded.cosines(pairs.first, pairs.second)
        spearman_ = 100 * spearman(cosines, pairs.scores)
        if not embedded.vectors.any(axis=1).all():
            return DevScore(spearman_, cosines=cosines)  # a text without a token has no direction
        positives = positive_sides(embedded, pairs)
        return DevScore(
            spearman_,
            alignment=None if positives is None else alignment(*positives),
            uniformity=uniformity(embedded.vectors[:SPREAD]),
            cosines=cosines,
        )

    def worse(self, trained: DevScore, start: DevScore) -> bool:
        """Whether ``trained`` is below ``start`` by more than chance (paired bootstrap, two-sided p < .05).

        Without the cosines of both there is no test: then any lower score is worse.
        """
        if self.strict or trained.value >= start.value:
            return self.strict
        if trained.cosines is None or start.cosines is None:
            return True
        test = paired_bootstrap(self.pairs.scores, trained.cosines, start.cosines)
        return test.p is None or test.p < NOISE


def choose(
    history: History,
    steps: int,
    own_pooling: OwnPoolingScore | None,
    is_worse: Callable[[], bool],
    *,
    data: str = Selector.data_in_words,
) -> Choice:
    """Applies the rule of this module.

    Args:
        history: with a score of the start and of at least one trained step.
        steps: of the run.
        own_pooling: the score of the start with its own pooling, if training uses another one.
        is_worse: whether the best trained step is worse than the start with the better pooling, by more than chance;
            called only where its score is not above that one's.
        data: what the scores are computed on, for the verdict.

    Example:
        >>> history = History({0: DevScore(70.0), 50: DevScore(72.5), 100: DevScore(71.0)})
        >>> choose(history, 100, None, lambda: False).verdict
        'the best model is kept (start 70.00, best 72.50 at step 50, last 71.00)'
    """
    scores = history.scores
    start, best, last = scores[0], scores[history.best_step], scores[max(scores)]
    with_own = f", with its own pooling {own_pooling.pooling} {own_pooling.value:.2f}" if own_pooling else ""
    numbers = f"start {start:.2f}{with_own}, best {best:.2f} at step {history.best_step:,}, last {last:.2f}"
    own_is_better = own_pooling is not None and own_pooling.value > start
    before = max(start, own_pooling.value) if own_pooling else start
    trained = history.by_step[history.best_step]
    kept = "the best model" if trained.share else trained.named(history.best_step)
    if best > before:
        caution = ""
        if history.best_step == max(scores) and len(scores) > 2 and steps > 1:
            caution = "; the best is the last evaluation: longer training may help"
        return Choice("best", f"{kept} is kept ({numbers}{caution})")
    if not is_worse():
        compared = "the start with its own pooling" if own_is_better else "the start"
        return Choice("best", f"{kept} is kept: the {data} cannot distinguish it from {compared} ({numbers})")
    if own_is_better:
        effect = "training helped, but" if best > start else "training did not help, and"
        return Choice("given", f"{effect} the model with its own pooling is better: that is kept unchanged ({numbers})")
    untrained = start_kept("start", own_pooling)
    return Choice("start", f"training did not help on the {data}, so {untrained} ({numbers})")


NOISE_OF_ACCURACY = 1.96
"""Standard errors below the start from which on a step counts as worse (two-sided p < .05)."""


@dataclass(frozen=True)
class TransferSelector(Selector):
    r"""Selects by the mean dev accuracy of the transfer tasks that are there, in percent.

    .. math:: \mathrm{dev} = \frac1T \sum_{t=1}^T \mathrm{accuracy}_t

    Attributes:
        data: the tasks; of the seven, any that are missing are named where the score is.

    Example:
        >>> from opencse.training.selection import TransferSelector
        >>> selector = TransferSelector.read(Path("senteval/transfer"))  # doctest: +SKIP
        >>> selector.name, selector.measure  # doctest: +SKIP
        ('7 transfer tasks in senteval/transfer', 'mean dev accuracy in %')
    """

    data: TransferData
    data_in_words = "transfer tasks"  # a sentence does not reveal its class: none is left out of the text

    @classmethod
    def read(cls, folder: Path) -> TransferSelector:
        """Reads the tasks of ``folder``, or of ``transfer/`` in it; see `opencse.evaluation.transfer`.

        Raises:
            UserError: for a folder without such tasks, a fault in a file, or a task too small for the folds.
        """
        inside = folder / Transfer.folder
        data = Transfer().load(inside if inside.is_dir() else folder)
        Transfer(mode="fast").check(data)
        return cls(data)

    @property
    def name(self) -> str:
        """The name of the data, with the tasks if they are not all seven."""
        absent = f" (without {', '.join(self.data.absent)})" if self.data.absent else ""
        return f"{number_of(len(self.data.tasks), 'transfer task')} in {self.data.source}{absent}"

    @property
    def measure(self) -> str:
        """The name of the score."""
        return "mean dev accuracy in %"

    @property
    def size(self) -> str:
        """How many examples there are."""
        return number_of(sum(self._examples().values()), "example")

    def fingerprint(self) -> str:
        """A hash of the tasks' content."""
        return hash_json(self.data.record.sha256)

    def score(self, encoder: SentenceEncoder) -> DevScore:
        """Scores ``encoder``: each sentence is encoded once; the classifiers have random numbers of their own."""
        tasks, suite = self.data.tasks, Transfer(mode="fast")
        embedded = embed(encoder.encode, distinct(group for task in tasks.values() for group in task.texts()))
        device = str(encoder.device)
        accuracies = {
            key: suite.score(key, task, embedded, device)[0].extras["dev_accuracy"] for key, task in tasks.items()
        }
        return DevScore(sum(accuracies.values()) / len(accuracies), parts=accuracies)

    def worse(self, trained: DevScore, start: DevScore) -> bool:
        """Whether ``trained`` is below ``start`` by more than chance.

        The standard error of the difference is that of two independent samples of each task's examples. Both encoders
        classify the same ones, so it is rather too large: a step is called worse only where that is clear.
        """
        variance = sum(
            self._variance(trained.parts[key], count) + self._variance(start.parts[key], count)
            for key, count in self._examples().items()
        )
        return trained.value < start.value - NOISE_OF_ACCURACY * math.sqrt(variance) / len(self.data.tasks)

    def _examples(self) -> dict[str, int]:
        """The examples that a task's dev accuracy is computed on: its dev set, else all that folds are made of."""
        return {key: self._dev_examples(task.counts) for key, task in self.data.tasks.items()}

    @staticmethod
    def _dev_examples(counts: dict[str, int]) -> int:
        return counts.get("dev") or counts.get("all") or counts["train"]

    @staticmethod
    def _variance(accuracy: float, count: int) -> float:
        return accuracy * (100 - accuracy) / count
