"""Transfer: how well does a simple classifier over frozen sentence vectors do on seven tasks?

Protocol of SentEval (Conneau and Kiela 2018) as SimCSE uses it (Gao et al. 2021, appendix E): the encoder is not
trained; softmax regression with l2 in 1e-5 ... 1e-2, chosen on dev or by cross-validation; accuracy in percent.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from opencse.environment import require_packages
from opencse.errors import UserError, require_known
from opencse.evaluation.classifiers.cross_validation import Fitter, kfold, nested, split
from opencse.evaluation.classifiers.settings import L2, MODES, Mode
from opencse.evaluation.embedding import Embedded
from opencse.evaluation.labelled import listed
from opencse.evaluation.suite import Options, Suite
from opencse.evaluation.transfer.data import TransferData, TransferExamples, load_transfer
from opencse.evaluation.transfer.result import (
    Classifier,
    TransferResult,
    TransferScore,
    TransferScores,
    transfer_table,
)

if TYPE_CHECKING:
    from rich.table import Table

C_SPLIT = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
C_KFOLD = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
SMALLEST = 20  # of which 5 % is one sentence
CLASSIFIERS: tuple[Classifier, ...] = ("softmax", "logistic")


@dataclass(frozen=True)
class Transfer(Suite[TransferExamples, TransferScore, TransferResult]):
    """The accuracy of each task.

    Attributes:
        mode: ``test`` (10 folds, Adam, batch 64), which papers report, or ``fast`` (5 folds, RMSprop, batch 128).
        classifier: ``softmax``, or ``logistic`` for scikit-learn's (C in 2^-2 ... 2^3, with ``kfold`` 2^-1 ... 2^5).
        device: see ``Suite``.
    """

    name = "transfer"
    title = "transfer"
    folder = "transfer"
    mode: Mode = "test"
    classifier: Classifier = "softmax"
    device: str | None = None

    @classmethod
    def of(cls, options: Options) -> Self:
        """See ``Suite``."""
        mode: Mode = "fast" if options.fast else "test"
        return cls(mode, "logistic" if options.logistic else "softmax", options.device)

    def load(self, folder: Path, tasks: Sequence[str] | None = None) -> TransferData:
        """See ``load_transfer``."""
        return load_transfer(folder, tasks)

    def check(self, data: TransferData) -> None:
        """Refuses an unknown mode or classifier, and a task too small for the folds."""
        require_known(self.mode, tuple(MODES), "mode")
        require_known(self.classifier, CLASSIFIERS, "classifier")
        require_packages("the transfer suite", "train", "sklearn")
        for task in data.tasks.values():
            _large_enough(task, MODES[self.mode].folds)

    def score(self, task: TransferExamples, embedded: Embedded, device: str = "cpu") -> TransferScore:
        """See ``Suite``; what the classifier reads is ``Labelled.features``, float32."""
        from opencse.evaluation.classifiers.logistic import Logistic
        from opencse.evaluation.classifiers.trained import Classifiers

        started = time.perf_counter()
        scheme, settings = task.task.scheme, MODES[self.mode]
        features, labels, rows = task.features(embedded), task.labels, task.rows
        fitter: Fitter
        grid: tuple[float, ...]
        if self.classifier == "softmax":
            fitter = Classifiers(features, labels, settings, classes=len(task.classes), device=device)
            grid = L2
        else:
            fitter = Logistic(features, labels)
            grid = C_KFOLD if scheme == "kfold" else C_SPLIT
        match scheme:
            case "nested":
                found = nested(fitter, labels, settings.folds, grid)
            case "kfold":
                found = kfold(fitter, labels, rows["train"], rows["test"], settings.folds, grid)
            case "split":
                found = split(fitter, labels, rows["train"], rows["dev"], rows["test"], grid)
        gold = labels[rows["all" if scheme == "nested" else "test"]]
        return TransferScore(
            accuracy=found.accuracy,
            f1=f1(found.predicted, gold) if task.task.f1 else None,
            dev_accuracy=found.dev_accuracy,
            scheme=scheme,
            regularisation=list(found.chosen),
            files=list(task.files),
            examples=task.counts,
            complete=task.complete,
            seconds=time.perf_counter() - started,
        )

    def record(self, scores: dict[str, TransferScore], told: Mapping[str, Any]) -> TransferResult:
        """See ``Suite``."""
        return TransferResult(**told, mode=self.mode, classifier=self.classifier, transfer=TransferScores.of(scores))

    def line(self, task: TransferExamples, score: TransferScore) -> str:
        """See ``Suite``."""
        line = f"{task.task.title}: accuracy {score.accuracy:.2f}"
        if score.f1 is not None:
            line += f", F1 {score.f1:.2f}"
        line += f" ({score.scheme}; {task.counted()}; {score.seconds:.1f} s)"
        if task.task.published and not score.complete:
            line += f" (published: {listed(task.task.published)}, so this does not compare with published values)"
        return line

    @classmethod
    def table(cls, results: Mapping[str, TransferResult]) -> Table:
        """See ``transfer_table``."""
        return transfer_table(results)


def f1(predicted: NDArray[np.intp], gold: NDArray[np.intp]) -> float:
    r"""F1 of class 1 in percent, 0 if it is neither predicted nor there.

    .. math:: F_1 = \frac{2\, TP}{2\, TP + FP + FN}

    Args:
        predicted: classes (n,).
        gold: classes (n,).
    """
    true = int(np.sum((predicted == 1) & (gold == 1)))
    total = int(np.sum(predicted == 1)) + int(np.sum(gold == 1))
    return 100 * 2 * true / total if total else 0.0


def _large_enough(task: TransferExamples, folds: int) -> None:
    """That folds, and folds within them, hold every class, and that 5 % of the smallest training set is a sentence."""
    if task.task.scheme == "split":
        return
    train = next(iter(task.parts.values()))
    nested_folds = task.task.scheme == "nested"
    for name, count in zip(task.classes, np.bincount(train.labels, minlength=len(task.classes)).tolist(), strict=True):
        least = count - math.ceil(count / folds) if nested_folds else count
        if least < folds:
            raise UserError(
                f"{task.where}: class {name[:40]!r} has {count} example(s), too few for {folds} folds"
                f"{' within folds' if nested_folds else ''}; add some, or drop the class"
            )
    n = len(train)
    if (n - math.ceil(n / folds) if nested_folds else n) < SMALLEST:
        raise UserError(
            f"{task.where}: {n} examples are too few: 5 % of a training set are set apart to stop a fit by; "
            f"give at least {2 * SMALLEST}"
        )
