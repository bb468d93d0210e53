"""Probing: which properties of a sentence can a simple classifier read off its frozen vector?

Protocol of SentEval's ten probing tasks (Conneau et al. 2018, "What you can cram into a single vector"): a classifier
is fitted on train, chosen and stopped on dev, tested once; accuracy in percent.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from opencse.errors import require_known
from opencse.evaluation.classifiers.cross_validation import Outcome, split
from opencse.evaluation.classifiers.settings import L2, MODES, Mode
from opencse.evaluation.embedding import Embedded
from opencse.evaluation.probing.data import ProbingData, ProbingExamples, load_probing
from opencse.evaluation.probing.result import (
    ProbingClassifier,
    ProbingResult,
    ProbingScore,
    ProbingScores,
    probing_table,
)
from opencse.evaluation.suite import Options, Suite

if TYPE_CHECKING:
    from rich.table import Table

HIDDEN = (50, 100, 200)
DROPOUT = (0.0, 0.1, 0.2)
CLASSIFIERS: tuple[ProbingClassifier, ...] = ("mlp", "softmax")


@dataclass(frozen=True)
class Probing(Suite[ProbingExamples, ProbingScore, ProbingResult]):
    r"""The accuracy of each task.

    ``softmax`` is softmax regression on the sentence vector x (d,), float32, with l2 in 1e-5 ... 1e-2. ``mlp`` has a
    hidden layer before it, the layers in SentEval's order:

    .. math:: p = \mathrm{softmax}\big(W_2\, \sigma(\mathrm{dropout}(W_1 x + b_1)) + b_2\big)

    with 50, 100 or 200 units and dropout 0, 0.1 or 0.2, chosen together with l2 by dev accuracy in percent with two
    decimals, the first of equals in that order; 36 fits. SentEval's readme recommends this grid; its code chooses l2
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

    def check(self, data: ProbingData) -> None:
        """Refuses an unknown mode or classifier."""
        require_known(self.mode, tuple(MODES), "mode")
        require_known(self.classifier, CLASSIFIERS, "classifier")

    def score(self, task: ProbingExamples, embedded: Embedded, device: str = "cpu") -> ProbingScore:
        """See ``Suite``."""
        from opencse.evaluation.classifiers.trained import Classifiers

        started = time.perf_counter()
        linear = self.classifier == "softmax" or task.task.linear
        features, labels, rows = task.features(embedded), task.labels, task.rows
        found: list[tuple[Outcome, int, float]] = []
        for hidden, dropout in [(0, 0.0)] if linear else product(HIDDEN, DROPOUT):
            settings = replace(MODES[self.mode], hidden=hidden, dropout=dropout)
            fitter = Classifiers(features, labels, settings, classes=len(task.classes), device=device)
            outcome = split(fitter, labels, rows["train"], rows["dev"], rows["test"], L2)
            found.append((outcome, hidden, dropout))
        outcome, hidden, dropout = max(found, key=lambda one: one[0].dev_accuracy)
        test = labels[rows["test"]]
        return ProbingScore(
            accuracy=outcome.accuracy,
            dev_accuracy=outcome.dev_accuracy,
            majority=100 * float(np.bincount(test).max()) / len(test),
            hidden=hidden,
            dropout=dropout,
            l2=outcome.chosen[0],
            classes=len(task.classes),
            files=list(task.files),
            split=task.split,
            examples=task.counts,
            dropped=task.dropped,
            complete=task.complete,
            seconds=time.perf_counter() - started,
        )

    def record(self, scores: dict[str, ProbingScore], told: Mapping[str, Any]) -> ProbingResult:
        """See ``Suite``."""
        return ProbingResult(**told, mode=self.mode, classifier=self.classifier, probing=ProbingScores.of(scores))

    def line(self, task: ProbingExamples, score: ProbingScore) -> str:
        """See ``Suite``."""
        net = f"{score.hidden} units, dropout {score.dropout:g}" if score.hidden else "softmax"
        line = f"{task.task.title}: accuracy {score.accuracy:.2f}, majority {score.majority:.2f} "
        line += f"({net}, l2 {score.l2:g}; {task.counted()}; {score.seconds:.1f} s)"
        if score.dropped:
            line += f"; {score.dropped:,} lines dropped, their sentences being in the test set"
        if not score.complete:
            line += " (not the published parts, so this does not compare with published values)"
        return line

    @classmethod
    def table(cls, results: Mapping[str, ProbingResult]) -> Table:
        """See ``probing_table``."""
        return probing_table(results)
