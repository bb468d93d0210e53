"""Probing: which properties of a sentence can a simple classifier predict from its frozen vector?

Protocol of SentEval's ten probing tasks (Conneau et al. 2018, "What you can cram into a single vector"): a classifier
is fitted on train, selected and stopped by dev, tested once; accuracy in percent.
"""

from __future__ import annotations

import time
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from pydantic import FiniteFloat

from opencse.errors import require_known
from opencse.evaluation.classifiers.cross_validation import TestOutcome, split
from opencse.evaluation.classifiers.settings import L2, MODES, Mode, mode_in_words
from opencse.evaluation.embedding import Embedded
from opencse.evaluation.probing.data import PROBING_TASKS, ProbingData, ProbingExamples, Split, load_probing
from opencse.evaluation.record import EvaluationRecord, SuiteScore
from opencse.evaluation.suite import Options, Suite
from opencse.evaluation.table import MODEL, Cell, TableRow, results_table
from opencse.numerals import number_of
from opencse.settings import Settings

if TYPE_CHECKING:
    from rich.table import Table

HIDDEN = (50, 100, 200)
DROPOUT = (0.0, 0.1, 0.2)

ProbingClassifier = Literal["mlp", "softmax"]


class ProbingScore(SuiteScore):
    """The scores of one probing task, in percent.

    Attributes:
        accuracy: of the test set.
        dev_accuracy: the best of the grid, by which the settings were selected; never report it as the task's.
        majority: what always predicting the test set's most frequent class would give.
        hidden: selected units of the hidden layer; 0: softmax regression.
        dropout: selected rate.
        l2: selected.
        classes: their number.
        files: what it was fitted and tested on.
        split: ``given`` by the files, or made from ``two_files`` or from ``one_file``; see ``load_probing``.
        examples: their number by part.
        dropped: lines left out, nearly all of train, because their sentence is also in the test set.
        complete: whether these are the published parts; if not, do not compare with published values.
        seconds: wall-clock time of the classifiers.
    """

    accuracy: FiniteFloat
    dev_accuracy: FiniteFloat
    majority: FiniteFloat
    hidden: int
    dropout: FiniteFloat
    l2: FiniteFloat
    classes: int
    files: list[str]
    split: Split
    examples: dict[str, int]
    dropped: int
    complete: bool
    seconds: FiniteFloat

    def measures(self) -> dict[str, float]:
        """The accuracy."""
        return {"": self.accuracy}


class ProbingScores(Settings):
    """The scores by task and their plain mean.

    Attributes:
        tasks: by key.
        average: over these tasks; compares only over the same ones.
    """

    tasks: dict[str, ProbingScore]
    average: FiniteFloat


class ProbingResult(EvaluationRecord):
    """The record of a probing evaluation: ``probing.tasks.<task>.accuracy`` and so on, and ``probing.average``.

    Attributes:
        mode: ``test``, or ``fast``, whose values differ somewhat.
        classifier: ``mlp`` (tuned on dev) or ``softmax``.
        probing: the scores.
    """

    key = "probing"
    mode: Mode
    classifier: ProbingClassifier
    probing: ProbingScores

    def scores(self) -> Mapping[str, ProbingScore]:
        """See ``EvaluationRecord``."""
        return self.probing.tasks

    def means(self) -> dict[str, float | None]:
        """``average``: over the tasks present."""
        return {"average": self.probing.average}


@dataclass(frozen=True)
class Probing(Suite[ProbingExamples, ProbingScore, ProbingResult]):
    r"""Scores each task by the accuracy of a classifier.

    ``softmax`` is softmax regression on the sentence vector x (d,), float32, with l2 in 1e-5 ... 1e-2. ``mlp`` has a
    hidden layer before it, the layers in SentEval's order:

    .. math:: p = \mathrm{softmax}\big(W_2\, \sigma(\mathrm{dropout}(W_1 x + b_1)) + b_2\big)

    with 50, 100 or 200 units and dropout 0, 0.1 or 0.2, selected together with l2 by dev accuracy in percent with two
    decimals, the first of equals in that order; 36 fits. SentEval's readme recommends this grid; its code selects l2
    alone. WordContent (1,000 classes) always has ``softmax``, as in SentEval.

    The texts are encoded task by task: the ten published ones hold 1.2 million sentences. Layer by layer: give
    ``open_model`` a ``layer``.

    Attributes:
        mode: ``test`` (Adam, batch 64, 4 passes between dev checks) or ``fast`` (RMSprop, batch 128, 2 passes).
        classifier: ``mlp`` or ``softmax``.
        device: see ``Suite``.
    """

    name = "probing"
    title = "probing"
    folder = "probing"
    by_task = True
    mode: Mode = "test"
    classifier: ProbingClassifier = "mlp"
    device: str | None = None

    @classmethod
    def of(cls, options: Options) -> Self:
        """See ``Suite``."""
        return cls("fast" if options.fast else "test", device=options.device)

    def load(self, folder: Path, tasks: Sequence[str] | None = None) -> ProbingData:
        """See ``load_probing``."""
        return load_probing(folder, tasks)

    def score_names(self, data: ProbingData) -> list[str]:
        """See ``Suite``."""
        return [*super().score_names(data), "probing.average"]

    def check(self, data: ProbingData) -> None:
        """Raises an error for an unknown mode or classifier."""
        require_known(self.mode, tuple(MODES), "mode")
        require_known(self.classifier, typing.get_args(ProbingClassifier), "classifier")

    def score(self, task: ProbingExamples, embedded: Embedded, device: str = "cpu") -> ProbingScore:
        """See ``Suite``."""
        from opencse.evaluation.classifiers.trained import Classifiers

        started = time.perf_counter()
        linear = self.classifier == "softmax" or task.task.linear
        features, labels, rows = task.features(embedded), task.labels, task.rows
        outcomes: list[tuple[TestOutcome, int, float]] = []
        for hidden, dropout in [(0, 0.0)] if linear else product(HIDDEN, DROPOUT):
            settings = replace(MODES[self.mode], hidden=hidden, dropout=dropout)
            fitter = Classifiers(features, labels, settings, classes=len(task.classes), device=device)
            outcome = split(fitter, labels, rows["train"], rows["dev"], rows["test"], L2)
            outcomes.append((outcome, hidden, dropout))
        outcome, hidden, dropout = max(outcomes, key=lambda one: one[0].dev_accuracy)
        test = labels[rows["test"]]
        return ProbingScore(
            accuracy=outcome.accuracy,
            dev_accuracy=outcome.dev_accuracy,
            majority=100 * float(np.bincount(test).max()) / len(test),
            hidden=hidden,
            dropout=dropout,
            l2=outcome.selected[0],
            classes=len(task.classes),
            files=list(task.files),
            split=task.split,
            examples=task.counts,
            dropped=task.dropped,
            complete=task.complete,
            seconds=time.perf_counter() - started,
        )

    def record(self, scores: dict[str, ProbingScore], common: Mapping[str, Any]) -> ProbingResult:
        """See ``Suite``."""
        average = sum(score.accuracy for score in scores.values()) / len(scores)
        probing = ProbingScores(tasks=scores, average=average)
        return ProbingResult(**common, mode=self.mode, classifier=self.classifier, probing=probing)

    def line(self, task: ProbingExamples, score: ProbingScore) -> str:
        """See ``Suite``."""
        net = f"{score.hidden} units, dropout {score.dropout:g}" if score.hidden else "softmax"
        line = f"{task.task.title}: accuracy {score.accuracy:.2f}, majority {score.majority:.2f} "
        line += f"({net}, l2 {score.l2:g}; {task.counted()}; {score.seconds:.1f} s)"
        if score.dropped:
            line += f"; {number_of(score.dropped, 'line')} dropped, their sentences being in the test set"
        if not score.complete:
            line += " (not the published parts, so this does not compare with published values)"
        return line

    @classmethod
    def table(cls, results: Mapping[str, ProbingResult]) -> Table:
        """Lays out test accuracies in percent, one row per model.

        ``*`` marks other parts than published, ``(k)`` a mean of only k of the ten tasks.
        """
        rows: list[TableRow] = []
        for label, result in results.items():
            tasks = result.probing.tasks
            by_task = [tasks.get(key) for key in PROBING_TASKS]
            cells = [Cell(None) if score is None else Cell(score.accuracy, score.complete) for score in by_task]
            average = Cell(
                result.probing.average, suffix="" if len(tasks) == len(PROBING_TASKS) else f" ({len(tasks)})"
            )
            rows.append([label, mode_in_words(result.mode, result.classifier, "mlp"), *cells, average])
        partial = any(len(result.probing.tasks) < len(PROBING_TASKS) for result in results.values())
        fast = any(result.mode == "fast" for result in results.values())
        notes = (
            "(k) the mean of only k of the ten tasks" if partial else None,
            "fast: larger batches, fewer passes" if fast else None,
        )
        headers = [*(task.title for task in PROBING_TASKS.values()), "Avg."]
        return results_table("Probing, test accuracy in %", [MODEL, "Mode"], headers, rows, notes, data="parts")
