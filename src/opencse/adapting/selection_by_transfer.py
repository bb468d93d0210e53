"""Selects the encoder to keep by its mean dev accuracy on the transfer tasks.

SimCSE's code can select so, and SSCL (section 4.2) and DiffCSE do for their transfer models. The dev accuracy of a task
is the one by which SentEval selects the regularisation of its classifier, with the fast settings that the authors' code
trains with (5 folds, RMSprop, batch 128); no test accuracy is used. The rule is that of
`opencse.adapting.selection_by_graded_pairs`: the best step is kept, unless the start is better by more than chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from opencse.adapting.selection import Choice, DevScore, History, OwnPoolingScore
from opencse.adapting.selection_by_graded_pairs import choose
from opencse.adapting.trained_texts import TrainedTexts
from opencse.encoder.encoder import SentenceEncoder
from opencse.evaluation.embedding import distinct, embed
from opencse.evaluation.transfer.data import TransferData
from opencse.evaluation.transfer.score import Transfer
from opencse.io import hash_json
from opencse.numerals import number_of

NOISE = 1.96
"""Standard errors below the start from which on a step counts as worse (two-sided p < .05)."""


@dataclass(frozen=True)
class TransferSelector:
    r"""Selects by the mean dev accuracy of the transfer tasks that are there, in percent.

    .. math:: \mathrm{dev} = \frac1T \sum_{t=1}^T \mathrm{accuracy}_t

    Attributes:
        data: the tasks; of the seven, any that are missing are named where the score is.

    Example:
        >>> from opencse.adapting.selection_by_transfer import TransferSelector
        >>> selector = TransferSelector.read(Path("senteval/transfer"))  # doctest: +SKIP
        >>> selector.name, selector.measure  # doctest: +SKIP
        ('7 transfer tasks in senteval/transfer', 'mean dev accuracy in %')
    """

    data: TransferData

    @classmethod
    def read(cls, folder: Path) -> TransferSelector:
        """Reads the tasks of ``folder``, or of ``transfer/`` in it; see `opencse.evaluation.transfer.data`.

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

    @property
    def left_out(self) -> None:
        """Nothing: the tasks are no part of the text."""
        return

    def forbidden_texts(self) -> list[str]:
        """None: a sentence does not reveal its class."""
        return []

    def without(self, trained: TrainedTexts) -> tuple[TransferSelector, list[str]]:
        """Drops nothing; see `forbidden_texts`."""
        del trained
        return self, []

    def fingerprint(self) -> str:
        """A hash of the tasks' content."""
        return hash_json(self.data.record.sha256)

    def begin(self, start: SentenceEncoder) -> DevScore:
        """Scores the start."""
        return self.score(start)

    def score(self, encoder: SentenceEncoder) -> DevScore:
        """Scores ``encoder``: each sentence is encoded once; the classifiers have random numbers of their own."""
        tasks, suite = self.data.tasks, Transfer(mode="fast")
        embedded = embed(encoder.encode, distinct(group for task in tasks.values() for group in task.texts()))
        device = str(encoder.device)
        accuracies = {key: suite.score(task, embedded, device).dev_accuracy for key, task in tasks.items()}
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
        return trained.value < start.value - NOISE * math.sqrt(variance) / len(self.data.tasks)

    def choose(
        self, history: History, steps: int, own_pooling: OwnPoolingScore | None, is_worse: Callable[[], bool]
    ) -> Choice:
        """Applies the rule of this module; see `opencse.adapting.selection_by_graded_pairs.choose`."""
        return choose(history, steps, own_pooling, is_worse, data="transfer tasks")

    def _examples(self) -> dict[str, int]:
        """The examples that a task's dev accuracy is computed on: its dev set, else all that folds are made of."""
        return {key: self._dev_examples(task.counts) for key, task in self.data.tasks.items()}

    @staticmethod
    def _dev_examples(counts: dict[str, int]) -> int:
        return counts.get("dev") or counts.get("all") or counts["train"]

    @staticmethod
    def _variance(accuracy: float, count: int) -> float:
        return accuracy * (100 - accuracy) / count


def is_transfer(dev: object) -> bool:
    """Whether ``--dev`` names transfer tasks: ``transfer`` or ``transfer:FOLDER``.

    Example:
        >>> is_transfer("transfer:senteval"), is_transfer("pairs.tsv")
        (True, False)
    """
    return isinstance(dev, str) and dev.partition(":")[0] == Transfer.name


def transfer_folder(dev: str) -> Path | None:
    """The folder that ``transfer:FOLDER`` names; None for ``transfer`` alone."""
    folder = dev.partition(":")[2]
    return Path(folder) if folder else None
