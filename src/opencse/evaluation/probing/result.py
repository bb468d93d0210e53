"""What a probing evaluation found, and its table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from pydantic import FiniteFloat

from opencse.evaluation.classifiers.settings import Mode
from opencse.evaluation.probing.data import PROBING_TASKS, Split
from opencse.evaluation.record import EvaluationRecord
from opencse.evaluation.table import ABSENT, cell, mode_of, table_of
from opencse.settings import Settings

if TYPE_CHECKING:
    from rich.table import Table

ProbingClassifier = Literal["mlp", "softmax"]


class ProbingScore(Settings):
    """The scores of one task, in percent.

    Attributes:
        accuracy: of the test set.
        dev_accuracy: the best of the grid, on which the choice was made; never report it as the task's.
        majority: what always telling the test set's most frequent class would give.
        hidden: units of the hidden layer chosen; 0: softmax regression.
        dropout: rate chosen.
        l2: chosen.
        classes: their number.
        files: what it was fitted and tested on.
        split: ``given`` by the files, or made from ``two_files`` or from ``one_file``; see ``load_probing``.
        examples: their number by part.
        dropped: lines left out, nearly all of train, for their sentence is also in the test set.
        complete: whether these are the published parts; if not, do not compare with published values.
        seconds: wall clock of the classifiers.
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


class ProbingScores(Settings):
    """The scores by task and their plain mean.

    Attributes:
        tasks: by key.
        average: over these tasks; compares only over the same ones.
    """

    tasks: dict[str, ProbingScore]
    average: FiniteFloat

    @classmethod
    def of(cls, tasks: Mapping[str, ProbingScore]) -> ProbingScores:
        """The tasks' scores with their mean."""
        return cls(tasks=dict(tasks), average=sum(score.accuracy for score in tasks.values()) / len(tasks))


class ProbingResult(EvaluationRecord):
    """A probing evaluation: ``probing.tasks.<task>.accuracy`` and so on, and ``probing.average``.

    Attributes:
        mode: ``test``, or ``fast``, whose values differ somewhat.
        classifier: ``mlp`` (tuned on dev) or ``softmax``.
        probing: the scores.
    """

    mode: Mode
    classifier: ProbingClassifier
    probing: ProbingScores

    def values(self) -> dict[str, float]:
        """Flat: ``probing.<task>`` and ``probing.average``, in percent."""
        flat = {f"probing.{key}": score.accuracy for key, score in self.probing.tasks.items()}
        return {**flat, "probing.average": self.probing.average}


def probing_table(results: Mapping[str, ProbingResult]) -> Table:
    """Test accuracies in percent with two decimals, a row a model; ``-`` where there is none.

    Args:
        results: by label, in the order to show.

    Returns:
        A table; ``*`` marks other parts than published, ``(k)`` a mean of only k of the ten tasks.
    """
    rows = []
    for label, result in results.items():
        scores = result.probing
        found = [scores.tasks.get(key) for key in PROBING_TASKS]
        cells = [ABSENT if score is None else cell(score.accuracy, complete=score.complete) for score in found]
        few = "" if len(scores.tasks) == len(PROBING_TASKS) else f" ({len(scores.tasks)})"
        mode = mode_of(result.mode, result.classifier, "mlp")
        rows.append([label, mode, *cells, f"{cell(scores.average)}{few}"])
    every = [score for result in results.values() for score in result.probing.tasks.values()]
    notes = (
        None
        if all(score.complete for score in every)
        else "* not the published parts: does not compare with published values",
        "(k) the mean of only k of the ten tasks" if len(every) < len(results) * len(PROBING_TASKS) else None,
        "fast: larger batches, fewer passes" if any(result.mode == "fast" for result in results.values()) else None,
    )
    titles = [task.title for task in PROBING_TASKS.values()]
    return table_of("Probing, test accuracy in %", ["Model", "Mode"], [*titles, "Avg."], rows, notes)
