"""What a transfer evaluation found, and its table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from pydantic import FiniteFloat

from opencse.evaluation.classifiers.cross_validation import Scheme
from opencse.evaluation.classifiers.settings import Mode
from opencse.evaluation.record import EvaluationRecord
from opencse.evaluation.transfer.data import TRANSFER_TASKS
from opencse.settings import Settings

if TYPE_CHECKING:
    from rich.table import Table

Classifier = Literal["softmax", "logistic"]
ABSENT = "-"


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
    from rich.table import Table
    from rich.text import Text

    own = [key for result in results.values() for key in result.transfer.tasks if key not in TRANSFER_TASKS]
    keys = [*TRANSFER_TASKS, *dict.fromkeys(own)]
    table = Table(title="Transfer, test accuracy in %")
    table.add_column("Model")
    table.add_column("Mode")
    for key in keys:
        table.add_column(Text(TRANSFER_TASKS[key].title if key in TRANSFER_TASKS else key), justify="right")
    table.add_column("Avg.", justify="right")
    for label, result in results.items():
        mode = result.mode if result.classifier == "softmax" else f"{result.mode}, {result.classifier}"
        cells = [_cell(result.transfer.tasks.get(key), published=key in TRANSFER_TASKS) for key in keys]
        table.add_row(Text(label), mode, *cells, _average(result.transfer))
    table.caption = "; ".join(_notes(list(results.values()))) or None
    return table


def _cell(score: TransferScore | None, *, published: bool) -> str:
    if score is None:
        return ABSENT
    return f"{score.accuracy:.2f}{'' if score.complete or not published else '*'}"


def _average(scores: TransferScores) -> str:
    if scores.average is not None:
        return f"{scores.average:.2f}"
    if scores.average_of_present is not None:
        return f"{scores.average_of_present:.2f} ({len(scores.present)})"
    return ABSENT


def _notes(results: list[TransferResult]) -> list[str]:
    notes = []
    seven = [score for result in results for key, score in result.transfer.tasks.items() if key in TRANSFER_TASKS]
    if not all(score.complete for score in seven):
        notes.append("* not the published number of examples: does not compare with published values")
    if any(result.transfer.average_of_present is not None for result in results):
        notes.append("(k) the mean of only k of the seven tasks: does not compare with a published average")
    if any(result.mode == "fast" for result in results):
        notes.append("fast: fewer folds and passes than published values are taken with")
    return notes
