"""What a transfer evaluation found, and its table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from pydantic import FiniteFloat

from opencse.evaluation.classifiers.cross_validation import Scheme
from opencse.evaluation.classifiers.settings import Mode
from opencse.evaluation.record import EvaluationRecord
from opencse.evaluation.table import cell, mode_of, table_of
from opencse.evaluation.transfer.data import TRANSFER_TASKS
from opencse.settings import Settings

if TYPE_CHECKING:
    from rich.table import Table

Classifier = Literal["softmax", "logistic"]


class TransferScore(Settings):
    """The scores of one task, in percent.

    Attributes:
        accuracy: of the test set; with ``nested`` the mean over the outer folds.
        f1: of class 1 (MRPC), else None.
        dev_accuracy: the best of the grid, on which the choice was made; never report it as the task's.
        scheme: ``nested``, ``kfold`` or ``split``.
        regularisation: chosen l2 (logistic: C), one an outer fold.
        files: what it was fitted and tested on.
        examples: their number by part.
        complete: whether these are the published numbers; if not, do not compare with published values.
        seconds: wall clock of the classifiers.
    """

    accuracy: FiniteFloat
    f1: FiniteFloat | None
    dev_accuracy: FiniteFloat
    scheme: Scheme
    regularisation: list[float]
    files: list[str]
    examples: dict[str, int]
    complete: bool
    seconds: FiniteFloat


class TransferScores(Settings):
    """The scores by task and their mean accuracy; tasks of one's own have no part in a mean.

    Attributes:
        tasks: by key.
        average: over the seven tasks; None unless all are there.
        average_of_present: over ``present`` where these are fewer than seven; does not compare with a published
            average. None where ``average`` is given, or none of the seven is there.
        present: which of the seven are there.
    """

    tasks: dict[str, TransferScore]
    average: FiniteFloat | None
    average_of_present: FiniteFloat | None
    present: list[str]

    @classmethod
    def of(cls, tasks: Mapping[str, TransferScore]) -> TransferScores:
        """The tasks' scores with their means."""
        present = [key for key in TRANSFER_TASKS if key in tasks]
        mean = sum(tasks[key].accuracy for key in present) / len(present) if present else None
        everything = len(present) == len(TRANSFER_TASKS)
        return cls(
            tasks=dict(tasks),
            average=mean if everything else None,
            average_of_present=None if everything else mean,
            present=present,
        )


class TransferResult(EvaluationRecord):
    """A transfer evaluation: ``transfer.tasks.<task>.accuracy`` and so on, and ``transfer.average``.

    Attributes:
        mode: ``test``, or ``fast``, whose values differ from published ones by some tenths.
        classifier: ``softmax`` (SentEval's own) or ``logistic``.
        transfer: the scores.
    """

    mode: Mode
    classifier: Classifier
    transfer: TransferScores

    def values(self) -> dict[str, float]:
        """Flat: ``transfer.<task>``, ``transfer.mrpc.f1``, and the average there is; all in percent."""
        flat: dict[str, float] = {}
        for key, score in self.transfer.tasks.items():
            flat[f"transfer.{key}"] = score.accuracy
            if score.f1 is not None:
                flat[f"transfer.{key}.f1"] = score.f1
        if self.transfer.average is not None:
            flat["transfer.average"] = self.transfer.average
        if self.transfer.average_of_present is not None:
            flat["transfer.average_of_present"] = self.transfer.average_of_present
        return flat


def transfer_table(results: Mapping[str, TransferResult]) -> Table:
    """Test accuracies in percent with two decimals, a row a model; ``-`` where there is none.

    Args:
        results: by label, in the order to show.

    Returns:
        A table; ``*`` marks another number of examples than published, ``(k)`` a mean of only k of the seven tasks.
    """
    own = [key for result in results.values() for key in result.transfer.tasks if key not in TRANSFER_TASKS]
    keys = [*TRANSFER_TASKS, *dict.fromkeys(own)]
    rows, all_seven, published = [], True, True
    for label, result in results.items():
        scores = result.transfer
        average = cell(scores.average)
        if scores.average_of_present is not None:
            average, all_seven = f"{cell(scores.average_of_present)} ({len(scores.present)})", False
        cells = []
        for key in keys:
            score = scores.tasks.get(key)
            complete = score is None or score.complete or key not in TRANSFER_TASKS
            published = published and complete
            cells.append(cell(None if score is None else score.accuracy, complete=complete))
        rows.append([label, mode_of(result.mode, result.classifier, "softmax"), *cells, average])
    notes = (
        None if published else "* not the published number of examples: does not compare with published values",
        None if all_seven else "(k) the mean of only k of the seven tasks: does not compare with a published average",
        "fast: fewer folds and passes than published values are taken with"
        if any(result.mode == "fast" for result in results.values())
        else None,
    )
    titles = [TRANSFER_TASKS[key].title if key in TRANSFER_TASKS else key for key in keys]
    return table_of("Transfer, test accuracy in %", ["Model", "Mode"], [*titles, "Avg."], rows, notes)
