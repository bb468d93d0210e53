"""Probing: which properties of a sentence can a simple classifier predict from its frozen vector?

Protocol of SentEval's ten probing tasks (Conneau et al. 2018, "What you can cram into a single vector"): a classifier
is fitted on train, selected and stopped by dev, tested once; accuracy in percent.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from opencse.errors import UserError
from opencse.evaluation.cross_validation import L2, MODES, SEED, TestOutcome, split
from opencse.evaluation.embedding import Embedded
from opencse.evaluation.labelled import Classification, Examples, Labelled, LabelledLine, Layout, read_labelled
from opencse.evaluation.record import AVERAGE, EvaluationRecord, Score
from opencse.evaluation.suite import Options, TaskData, chosen
from opencse.evaluation.table import scores_table
from opencse.files import require_folder
from opencse.numerals import number_of

if TYPE_CHECKING:
    from rich.table import Table

PARTS = {"tr": "train", "va": "dev", "te": "test"}
PUBLISHED = {"train": 100_000, "dev": 10_000, "test": 10_000}
TOLERANCE = 0.01  # the published sets differ from these round numbers by a few sentences, to balance the classes
LAYOUT = "SentEval's <task>.txt (tr, va or te<TAB>label<TAB>sentence), or <task>/va.txt and te.txt (sentence<TAB>label)"

PUBLISHED_LINE = Layout("tr, va or te<TAB>label<TAB>sentence", range(3, 1_000), 1, slice(-1, None))
PART_LINE = Layout("sentence<TAB>label", range(2, 3), 1, slice(1))

Split = Literal["given", "two_files", "one_file"]


@dataclass(frozen=True)
class ProbingTask:
    """One probing task.

    Attributes:
        key: name in results and of its file, for instance ``tree_depth``.
        title: name in the paper's tables, for instance ``TreeDepth``.
        linear: whether it is evaluated always by softmax regression.
    """

    key: str
    title: str
    linear: bool = False


PROBING_TASKS: dict[str, ProbingTask] = {
    task.key: task
    for task in (
        ProbingTask("sentence_length", "SentLen"),
        ProbingTask("word_content", "WC", linear=True),
        ProbingTask("tree_depth", "TreeDepth"),
        ProbingTask("top_constituents", "TopConst"),
        ProbingTask("bigram_shift", "BShift"),
        ProbingTask("past_present", "Tense"),
        ProbingTask("subj_number", "SubjNum"),
        ProbingTask("obj_number", "ObjNum"),
        ProbingTask("odd_man_out", "SOMO"),
        ProbingTask("coordination_inversion", "CoordInv"),
    )
}
"""The ten tasks in the paper's order (Conneau et al. 2018, Table 2)."""


@dataclass(frozen=True, eq=False)
class ProbingExamples(Labelled):
    """The examples of one task, each in one of ``train``, ``dev`` and ``test``; see ``Labelled``.

    Attributes:
        task: what is published about it.
        split: where the parts come from; see ``load_probing``.
        dropped: lines left out, see ``load_probing``: nearly all of train, for their sentence is also in test.
    """

    task: ProbingTask
    split: Split
    dropped: int

    @property
    def complete(self) -> bool:
        """Whether the parts are given and of the published sizes; if not, published scores do not compare."""
        return self.split == "given" and all(
            abs(self.counts[name] - published) <= TOLERANCE * published for name, published in PUBLISHED.items()
        )


ProbingData = TaskData[ProbingExamples]


def load_probing(folder: Path, tasks: Sequence[str] | None = None) -> ProbingData:
    """Reads the tasks of a local folder, or of the one folder within it that holds any.

    A task is SentEval's file ``<task>.txt`` or else a folder ``<task>``. Lines of the file are ``tr``, ``va`` or
    ``te``, label, maybe more, sentence, between tabs; lines of the folder's ``va.txt``, ``te.txt`` (and ``tr.txt``)
    are ``sentence<TAB>label``. Which sentence is in which part is

    - ``given``: by the file, or by the three files of a folder. Nothing is left out, as in SentEval.
    - ``two_files``: a folder without ``tr.txt``. Test is ``te``; lines of ``va`` whose sentence is in ``te`` are
      dropped, and lines of ``te`` whose class then has no training sentence; of the rest of ``va``, a tenth of
      each class's different sentences, rounded down, is dev, the rest train.
    - ``one_file``: ``va`` and ``te`` hold the same lines. Half of each class's different sentences is test, and the
      other half is divided like ``va`` above: about 45 % train, 5 % dev, 50 % test.

    In the last two a sentence that occurs several times in a file is in one part with all its lines, whatever their
    labels, and the draw is the same on every machine. Neither compares with published values.

    Args:
        folder: holds the files or folders.
        tasks: keys of ``PROBING_TASKS``; None: the ones in the folder.

    Raises:
        UserError: naming what is missing, or the file and line at fault.
    """
    data_folder = _data_folder(Path(folder))
    present = _present(data_folder)
    keys = chosen(tasks, present, "probing task", data_folder, PROBING_TASKS)
    loaded = {key: _load(data_folder, PROBING_TASKS[key]) for key in keys}
    absent = tuple(key for key in PROBING_TASKS if key not in present) if tasks is None else ()
    return ProbingData(str(data_folder), "unknown", loaded, absent)


def _present(folder: Path) -> list[str]:
    return [key for key in PROBING_TASKS if (folder / f"{key}.txt").is_file() or (folder / key).is_dir()]


def _data_folder(folder: Path) -> Path:
    """Returns ``folder`` if it holds a task, else the one folder in it that does."""
    require_folder(folder, f"give a folder that holds {LAYOUT}")
    if _present(folder):
        return folder
    inside = sorted(entry for entry in folder.iterdir() if entry.is_dir() and _present(entry))
    if len(inside) == 1:
        return inside[0]
    if inside:
        raise UserError(f"{folder}: several folders hold probing tasks: {', '.join(e.name for e in inside)}; give one")
    raise UserError(f"{folder}: no probing task there; known: {', '.join(PROBING_TASKS)}; a task is {LAYOUT}")


def _load(folder: Path, task: ProbingTask) -> ProbingExamples:
    file = folder / f"{task.key}.txt"
    split: Split = "given"
    if file.is_file():
        files, lines = [file], _read_published(file)
    else:
        files = [folder / task.key / f"{name}.txt" for name in PARTS]
        if not files[0].exists():
            split, files = "two_files", files[1:]
        for path in files:
            if not path.is_file():
                raise UserError(f"{path}: missing; needed: va.txt and te.txt; add it")
        lines = {PARTS[path.stem]: list(read_labelled(path, PART_LINE)) for path in files}
        if split == "two_files" and _content(lines["dev"]) == _content(lines["test"]):
            split = "one_file"
    dropped = 0
    if split != "given":
        lines, dropped = _divided(lines["dev"], None if split == "one_file" else lines["test"])
    for name, short in zip(PARTS.values(), PARTS, strict=True):
        if not lines[name]:
            lost = f"no line of {short!r}"
            if split != "given":
                lost = "without the sentences that are in test, and with a tenth of each class's as dev"
            raise UserError(f"{files[0]}: {lost}, nothing is left for {name}; add some")
    classes = sorted({line.label for line in lines["train"]})
    if len(classes) < 2:
        raise UserError(f"{files[0]}: every training label is {classes[0][:40]!r}; a task needs two classes or more")
    number = {name: position for position, name in enumerate(classes)}
    known = "no training sentence has it"
    return ProbingExamples(
        task=task,
        parts={name: Examples.of(lines[name], number, known) for name in PARTS.values()},
        classes=tuple(classes),
        files=tuple(path.relative_to(folder).as_posix() for path in files),
        split=split,
        dropped=dropped,
    )


def _read_published(path: Path) -> dict[str, list[LabelledLine]]:
    parts: dict[str, list[LabelledLine]] = {name: [] for name in PARTS.values()}
    for line in read_labelled(path, PUBLISHED_LINE):
        if line.first not in PARTS:
            raise UserError(f"{line.where}: unknown part {line.first[:40]!r}; the first field is tr, va or te")
        parts[PARTS[line.first]].append(line)
    return parts


def _content(lines: Sequence[LabelledLine]) -> list[tuple[str, str]]:
    return sorted((line.texts[0], line.label) for line in lines)


def _divided(lines: list[LabelledLine], test: list[LabelledLine] | None) -> tuple[dict[str, list[LabelledLine]], int]:
    """Divides ``lines`` into train and dev, and test where there is none; also the number of lines dropped."""
    if test is None:
        sample = _draw(lines, 2)
        test, lines = _within(lines, sample), _without(lines, sample)
    remaining = _without(lines, {line.texts[0] for line in test})
    sample = _draw(remaining, 10)
    train = _without(remaining, sample)
    lost = {line.label for line in lines} - {line.label for line in train}
    tested = [line for line in test if line.label not in lost]
    dropped = len(lines) - len(remaining) + len(test) - len(tested)
    return {"train": train, "dev": _within(remaining, sample), "test": tested}, dropped


def _draw(lines: Sequence[LabelledLine], k: int) -> set[str]:
    """Draws one in k of each class's different sentences, rounded down; its first line gives a sentence's class."""
    label_of: dict[str, str] = {}
    for line in lines:
        label_of.setdefault(line.texts[0], line.label)
    of_class: dict[str, list[str]] = {}
    for sentence, label in label_of.items():
        of_class.setdefault(label, []).append(sentence)
    random = np.random.RandomState(SEED)
    sample: set[str] = set()
    for _, sentences in sorted(of_class.items()):
        sample.update(sentences[i] for i in random.permutation(len(sentences))[: len(sentences) // k].tolist())
    return sample


def _within(lines: Sequence[LabelledLine], sentences: set[str]) -> list[LabelledLine]:
    return [line for line in lines if line.texts[0] in sentences]


def _without(lines: Sequence[LabelledLine], sentences: set[str]) -> list[LabelledLine]:
    return [line for line in lines if line.texts[0] not in sentences]


# The grid of Conneau et al. 2018.
HIDDEN = (50, 100, 200)
DROPOUT = (0.0, 0.1, 0.2)


@dataclass(frozen=True)
class Probing(Classification[ProbingExamples]):
    r"""Scores each task by the accuracy of a classifier.

    The extras of ``accuracy`` are ``dev_accuracy`` (the best of the grid, by which the settings were selected; never
    report it as the task's), ``majority`` (what always predicting the test set's most frequent class would give), the
    selected ``hidden`` units (0: softmax regression), ``dropout`` and ``l2``, the number of ``classes``, ``files``,
    ``split`` and ``dropped`` lines (see ``load_probing``), ``examples`` by part, and ``seconds``.

    The classifier is softmax regression on the sentence vector x (d,), float32, with l2 in 1e-5 ... 1e-2, and a hidden
    layer before it, the layers in SentEval's order:

    .. math:: p = \mathrm{softmax}\big(W_2\, \sigma(\mathrm{dropout}(W_1 x + b_1)) + b_2\big)

    with 50, 100 or 200 units and dropout 0, 0.1 or 0.2, selected together with l2 by dev accuracy in percent with two
    decimals, the first of equals in that order; 36 fits. SentEval's readme recommends this grid; its code selects l2
    alone. WordContent (1,000 classes) has no hidden layer, as in SentEval.

    The texts are encoded task by task: the ten published ones hold 1.2 million sentences. Layer by layer: give
    ``open_model`` a ``layer``.

    """

    name = "probing"
    title = "probing"
    folder = "probing"
    by_task = True

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

    def score(self, name: str, task: ProbingExamples, embedded: Embedded, device: str = "cpu") -> list[Score]:
        """See ``Suite``."""
        from opencse.evaluation.classifiers import Classifiers

        started = time.perf_counter()
        features, labels, rows = task.features(embedded), task.labels, task.rows
        outcomes: list[tuple[TestOutcome, int, float]] = []
        for hidden, dropout in [(0, 0.0)] if task.task.linear else product(HIDDEN, DROPOUT):
            settings = replace(MODES[self.mode], hidden=hidden, dropout=dropout)
            fitter = Classifiers(features, labels, settings, classes=len(task.classes), device=device)
            outcome = split(fitter, labels, rows["train"], rows["dev"], rows["test"], L2)
            outcomes.append((outcome, hidden, dropout))
        outcome, hidden, dropout = max(outcomes, key=lambda one: one[0].dev_accuracy)
        test = labels[rows["test"]]
        extras = {
            "majority": 100 * float(np.bincount(test).max()) / len(test),
            "hidden": hidden,
            "dropout": dropout,
            "l2": outcome.selected[0],
            "classes": len(task.classes),
            "split": task.split,
            "dropped": task.dropped,
        }
        return [self.accuracy(name, task, outcome, len(test), started, **extras)]

    def averages(self, scores: Mapping[str, list[Score]]) -> list[Score]:
        """Their plain mean; compares only over the same tasks."""
        return [self.mean([one for (one,) in scores.values()], len(PROBING_TASKS))]

    def settings(self, scores: Mapping[str, list[Score]]) -> dict[str, Any]:
        """See ``Suite``."""
        return {"mode": self.mode, "classifier": "mlp"}

    def line(self, task: ProbingExamples, scores: Sequence[Score]) -> str:
        """See ``Suite``."""
        extras = scores[0].extras
        net = f"{extras['hidden']} units, dropout {extras['dropout']:g}" if extras["hidden"] else "softmax"
        line = f"{task.task.title}: accuracy {scores[0].value:.2f}, majority {extras['majority']:.2f} "
        line += f"({net}, l2 {extras['l2']:g}; {task.counted()}; {extras['seconds']:.1f} s)"
        if task.dropped:
            line += f"; {number_of(task.dropped, 'line')} dropped, their sentences being in the test set"
        if not scores[0].complete:
            line += " (not the published parts, so this does not compare with published values)"
        return line

    @classmethod
    def table(cls, results: Mapping[str, EvaluationRecord]) -> Table:
        """Lays out test accuracies in percent, one row per model.

        ``*`` marks other parts than published, ``(k)`` a mean of only k of the ten tasks.
        """
        partial = any(len(record.tasks) < len(PROBING_TASKS) for record in results.values())
        fast = any(record.settings["mode"] == "fast" for record in results.values())
        notes = (
            "(k) the mean of only k of the ten tasks" if partial else None,
            "fast: larger batches, fewer passes" if fast else None,
        )
        columns = [
            *((task.title, key, "accuracy") for key, task in PROBING_TASKS.items()),
            ("Avg.", AVERAGE, "accuracy"),
        ]
        title = "Probing, test accuracy in %"
        return scores_table(title, results, columns, data="parts", notes=notes, usual="mlp")
