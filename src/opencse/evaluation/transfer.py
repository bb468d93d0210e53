"""Transfer: how well does a simple classifier over frozen sentence vectors do on seven tasks, or on your own?

Protocol of SentEval (Conneau and Kiela 2018) as SimCSE uses it (Gao et al. 2021, appendix E): the encoder is not
trained; softmax regression with l2 in 1e-5 ... 1e-2, selected on dev or by cross-validation; accuracy in percent.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from opencse.environment import require_packages
from opencse.errors import UserError
from opencse.evaluation.cross_validation import L2, MODES, Fitter, Scheme, kfold, nested, split
from opencse.evaluation.embedding import Embedded
from opencse.evaluation.labelled import (
    Classification,
    Examples,
    Labelled,
    LabelledLine,
    Layout,
    listed,
    read_labelled,
)
from opencse.evaluation.record import AVERAGE, PARTIAL, EvaluationRecord, Score
from opencse.evaluation.suite import Options, TaskData, chosen
from opencse.evaluation.table import scores_table
from opencse.files import require_folder

if TYPE_CHECKING:
    from rich.table import Table

TRAIN_PHRASES = "train_phrases"
"""SST2's file of phrases: SentEval's training set."""


@dataclass(frozen=True)
class TransferTask:
    """One transfer task.

    Attributes:
        key: name in results and of its folder, for instance ``mr``.
        title: name in tables, for instance ``MR``.
        scheme: ``nested`` (one file ``all.tsv``), ``kfold`` (``train``, ``test``), ``split`` (``train``, ``dev``,
            ``test``).
        pairs: whether an example is two sentences.
        labels: how each class may be written, in SentEval's order of the classes; empty: as in the training set.
        published: the published number of examples by part; empty for your own tasks.
        f1: whether the F1 of class 1 is reported in addition to the accuracy.
    """

    key: str
    title: str
    scheme: Scheme
    pairs: bool = False
    labels: tuple[tuple[str, ...], ...] = (("0",), ("1",))
    published: Mapping[str, int] = field(default_factory=dict)
    f1: bool = False


# Files have the names of the coarse classes, or numbers for them.
TREC_LABELS = (("ABBR", "2"), ("DESC", "0"), ("ENTY", "1"), ("HUM", "3"), ("LOC", "4"), ("NUM", "5"))

TRANSFER_TASKS: dict[str, TransferTask] = {
    task.key: task
    for task in (
        TransferTask("mr", "MR", "nested", published={"all": 10_662}),
        TransferTask("cr", "CR", "nested", published={"all": 3775}),
        TransferTask("subj", "SUBJ", "nested", published={"all": 10_000}),
        TransferTask("mpqa", "MPQA", "nested", published={"all": 10_606}),
        TransferTask("sst2", "SST2", "split", published={"train": 67_349, "dev": 872, "test": 1821}),
        TransferTask("trec", "TREC", "kfold", labels=TREC_LABELS, published={"train": 5452, "test": 500}),
        TransferTask("mrpc", "MRPC", "kfold", pairs=True, published={"train": 4076, "test": 1725}, f1=True),
    )
}
"""The seven tasks in the order of every published table."""


@dataclass(frozen=True, eq=False)
class TransferExamples(Labelled):
    """The examples of one task; see ``Labelled``.

    Attributes:
        task: what is published about it.
        folder: of its files.
    """

    line_end = "\t\n"
    task: TransferTask
    folder: Path

    @property
    def where(self) -> str:
        """The file of the training examples, for messages."""
        return str(self.folder / self.files[0])

    @property
    def complete(self) -> bool | None:
        """Whether the numbers of examples are those published; None for your own tasks."""
        return self.counts == dict(self.task.published) if self.task.published else None

    @property
    def repeated(self) -> int:
        """The number of test rows (``nested``: of all rows) whose text occurs in another row that may be fitted on."""
        rows = {name: [*zip(*part.sides, strict=True)] for name, part in self.parts.items()}
        tested = rows.pop("all", None) or rows.pop("test")
        times = Counter(tested) if not rows else Counter(dict.fromkeys(chain(*rows.values()), 2))
        return sum(times[row] > 1 for row in tested)


TransferData = TaskData[TransferExamples]


def require_tasks(folder: str | Path) -> Path:
    """The folder of the tasks.

    Raises:
        UserError: if it does not exist.
    """
    require_folder(Path(folder), f"give a folder that holds {', '.join(TRANSFER_TASKS)}")
    return Path(folder)


def load_transfer(folder: Path, tasks: Sequence[str] | None = None) -> TransferData:
    """Reads the tasks of a local folder, ``<task>/<part>.tsv``: lines ``label<TAB>sentence`` (MRPC: two sentences).

    MR, CR, SUBJ and MPQA have one part ``all``; TREC and MRPC ``train`` and ``test`` (a ``dev`` there is joined to
    ``train``, as SentEval has it); SST2 ``train_phrases`` if it exists (the 67k phrases SentEval trains on), else
    ``train``, and ``dev`` and ``test``. Labels are 0 and 1; TREC's 0 DESC, 1 ENTY, 2 ABBR, 3 HUM, 4 LOC, 5 NUM, or
    these names.

    Any other folder named in ``tasks`` is a task of your own, whose files decide its protocol: ``all.tsv`` is
    cross-validated within cross-validation, ``train``, ``dev`` and ``test`` are used as such, ``train`` and ``test``
    with cross-validation on ``train``. A line of three fields is a pair; labels may be any words.

    Args:
        folder: holds one folder per task.
        tasks: names of folders; None: all of the seven that are in the folder.

    Raises:
        UserError: naming what is missing, or the file and line at fault.
    """
    folder = require_tasks(folder)
    folders = [entry.name for entry in folder.iterdir() if entry.is_dir()]
    there = [key for key in dict.fromkeys([*TRANSFER_TASKS, *(tasks or ())]) if key in folders]
    keys = chosen(
        tasks,
        there if tasks is None else there + sorted({*folders} - {*there}),
        "transfer task",
        folder,
        TRANSFER_TASKS,
    )
    loaded = {key: _load(folder / key, TRANSFER_TASKS.get(key)) for key in keys}
    absent = tuple(key for key in TRANSFER_TASKS if key not in folders) if tasks is None else ()
    return TransferData(str(folder), "unknown", loaded, absent)


def _load(folder: Path, known: TransferTask | None) -> TransferExamples:
    stems = {path.stem for path in folder.glob("*.tsv")}
    scheme = known.scheme if known else _scheme(folder, stems)
    files = _files(folder, scheme, stems, phrases=known is not None and known.key == "sst2")
    lines = {
        part: [line for name in names for line in read_labelled(folder / f"{name}.tsv", LINE)]
        for part, names in files.items()
    }
    for part, names in files.items():
        if not lines[part]:
            raise UserError(f"{folder / names[0]}.tsv: no lines but blank ones; give label<TAB>sentence on each")
    fitted = next(iter(lines.values()))
    pairs = len(fitted[0].texts) == 2
    task = known or TransferTask(folder.name, folder.name, scheme, pairs=pairs, labels=())
    written = task.labels or tuple((label,) for label in sorted({line.label for line in fitted}))
    if len(written) < 2:
        raise UserError(f"{fitted[0].where}: every label is {fitted[0].label!r}; a task needs two classes or more")
    return TransferExamples(
        task=task,
        parts={part: _examples(several, written, pairs=task.pairs) for part, several in lines.items()},
        classes=tuple(names[0] for names in written),
        folder=folder,
        files=tuple(f"{name}.tsv" for names in files.values() for name in names),
    )


def _scheme(folder: Path, stems: set[str]) -> Scheme:
    if "all" in stems:
        return "nested"
    return "split" if {"train", "dev", "test"} <= stems else "kfold"


def _files(folder: Path, scheme: Scheme, stems: set[str], *, phrases: bool) -> dict[str, list[str]]:
    """The names of the files of each part."""
    match scheme:
        case "nested":
            files = {"all": ["all"]}
        case "kfold":
            files = {"train": ["train", "dev"] if "dev" in stems else ["train"], "test": ["test"]}
        case "split":
            train = TRAIN_PHRASES if phrases and TRAIN_PHRASES in stems else "train"
            files = {"train": [train], "dev": ["dev"], "test": ["test"]}
    for name in (name for names in files.values() for name in names):
        if name not in stems:
            needed = ", ".join(f"{n}.tsv" for names in files.values() for n in names)
            present = ", ".join(sorted(f"{n}.tsv" for n in stems)) or "none"
            raise UserError(f"{folder / name}.tsv: missing; needed: {needed}; .tsv files there: {present}; add it")
    return files


def _examples(lines: list[LabelledLine], written: tuple[tuple[str, ...], ...], *, pairs: bool) -> Examples:
    for line in lines:
        if len(line.texts) != (2 if pairs else 1):
            raise UserError(
                f"{line.where}: {len(line.texts) + 1} fields, {3 if pairs else 2} expected: "
                f"label<TAB>sentence{'<TAB>sentence' if pairs else ''}"
            )
    number = {name: position for position, names in enumerate(written) for name in names}
    return Examples.of(lines, number, f"the classes are {', '.join('/'.join(names) for names in written)}")


LINE = Layout("label<TAB>sentence, or with a second <TAB>sentence", range(2, 4), 0, slice(1, None))

# SentEval's grids for scikit-learn: 2^-2 to 2^3, and 2^-1 to 2^5.
C_SPLIT = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
C_KFOLD = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
SMALLEST = 20  # of which 5 % is one sentence

Classifier = Literal["softmax", "logistic"]


@dataclass(frozen=True)
class Transfer(Classification[TransferExamples]):
    """Scores each task by the accuracy of a classifier, and MRPC by the F1 of class 1, too.

    The extras of ``accuracy`` are ``dev_accuracy`` (the best of the grid, by which the regularisation was selected;
    never report it as the task's), ``scheme`` (``nested``, ``kfold`` or ``split``), ``regularisation`` (the selected
    l2, or C of logistic, one per outer fold), ``files``, ``examples`` by part, ``seconds``, and ``repeated``: test
    rows that are also in the training or dev set (``nested``: rows that occur more than once, which folds may share);
    the score may be too high by them.

    Attributes:
        classifier: ``softmax``, or ``logistic`` for scikit-learn's (C in 2^-2 ... 2^3, with ``kfold`` 2^-1 ... 2^5).
    """

    name = "transfer"
    title = "transfer"
    folder = "transfer"
    classifier: Classifier = "softmax"

    @classmethod
    def of(cls, options: Options) -> Self:
        """See ``Suite``."""
        return cls("fast" if options.fast else "test", options.device, "logistic" if options.logistic else "softmax")

    def load(self, folder: Path, tasks: Sequence[str] | None = None) -> TransferData:
        """See ``load_transfer``."""
        return load_transfer(folder, tasks)

    def score_names(self, data: TransferData) -> list[str]:
        """See ``Suite``."""
        known = [name for name in TRANSFER_TASKS if name in data.tasks]
        average = "average" if len(known) == len(TRANSFER_TASKS) else "average_of_present"
        names = [name for one in data.tasks for name in ([one, f"{one}.f1"] if data.tasks[one].task.f1 else [one])]
        return [f"transfer.{name}" for name in (*names, *([average] if known else []))]

    def check(self, data: TransferData) -> None:
        """Raises an error for a task too small for the folds."""
        require_packages("the transfer suite", "train", "sklearn")
        for task in data.tasks.values():
            _require_large_enough(task, MODES[self.mode].folds)

    def score(self, name: str, task: TransferExamples, embedded: Embedded, device: str = "cpu") -> list[Score]:
        """See ``Suite``; what the classifier reads is ``Labelled.features``, float32."""
        from opencse.evaluation.classifiers import Classifiers
        from opencse.evaluation.cross_validation import Logistic

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
                outcome = nested(fitter, labels, settings.folds, grid)
            case "kfold":
                outcome = kfold(fitter, labels, rows["train"], rows["test"], settings.folds, grid)
            case "split":
                outcome = split(fitter, labels, rows["train"], rows["dev"], rows["test"], grid)
        gold = labels[rows["all" if scheme == "nested" else "test"]]
        extras = {"scheme": scheme, "regularisation": list(outcome.selected), "repeated": task.repeated}
        one = self.accuracy(name, task, outcome, len(gold), started, **extras)
        if not task.task.f1:
            return [one]
        value = f1(outcome.predicted, gold)
        return [one, one.model_copy(update={"measure": "f1", "value": value, "extras": {}})]

    def averages(self, scores: Mapping[str, list[Score]]) -> list[Score]:
        """Their mean accuracy; your own tasks are not part of it, and of fewer than seven it has another name."""
        known = [scores[key][0] for key in TRANSFER_TASKS if key in scores]
        name = AVERAGE if len(known) == len(TRANSFER_TASKS) else PARTIAL
        return [self.mean(known, len(TRANSFER_TASKS), name)] if known else []

    def settings(self, scores: Mapping[str, list[Score]]) -> dict[str, Any]:
        """See ``Suite``."""
        return {"mode": self.mode, "classifier": self.classifier}

    def line(self, task: TransferExamples, scores: Sequence[Score]) -> str:
        """See ``Suite``."""
        first, *others = scores
        line = f"{task.task.title}: accuracy {first.value:.2f}" + "".join(f", F1 {one.value:.2f}" for one in others)
        line += f" ({task.task.scheme}; {task.counted()}; {first.extras['seconds']:.1f} s)"
        if repeated := first.extras["repeated"]:
            where = "occur more than once" if task.task.scheme == "nested" else "are also in train or dev"
            line += f"; {repeated:,} test rows {where}, so it may be too high"
        if first.complete is False:
            line += f" (published: {listed(task.task.published)}, so this does not compare with published values)"
        return line

    @classmethod
    def table(cls, results: Mapping[str, EvaluationRecord]) -> Table:
        """Lays out test accuracies in percent, one row per model.

        ``*`` marks another number of examples than published, ``(k)`` a mean of only k of the seven tasks.
        """
        keys = dict.fromkeys([*TRANSFER_TASKS, *(task for record in results.values() for task in record.tasks)])
        partial = any(record.find(PARTIAL, "accuracy") for record in results.values())
        fast = any(record.settings["mode"] == "fast" for record in results.values())
        notes = (
            "(k) the mean of only k of the seven tasks: does not compare with a published average" if partial else None,
            "fast: fewer folds and passes than published values are taken with" if fast else None,
        )
        columns = [(TRANSFER_TASKS[key].title if key in TRANSFER_TASKS else key, key, "accuracy") for key in keys]
        columns.append(("Avg.", AVERAGE, "accuracy"))
        title, data = "Transfer, test accuracy in %", "number of examples"
        return scores_table(title, results, columns, data=data, notes=notes, usual="softmax")


def f1(predicted: NDArray[np.intp], gold: NDArray[np.intp]) -> float:
    r"""Computes F1 of class 1 in percent, 0 if it is neither predicted nor in the gold classes.

    .. math:: F_1 = \frac{2\, TP}{2\, TP + FP + FN}

    Args:
        predicted: classes (n,).
        gold: classes (n,).

    Example:
        >>> f1(np.array([1, 1, 0, 0]), np.array([1, 0, 1, 0]))
        50.0
    """
    true = int(np.sum((predicted == 1) & (gold == 1)))
    total = int(np.sum(predicted == 1)) + int(np.sum(gold == 1))
    return 100 * 2 * true / total if total else 0.0


def _require_large_enough(task: TransferExamples, folds: int) -> None:
    """Checks that folds, and folds within them, hold every class, and that 5 % of a training set is a sentence."""
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
