"""The seven STS tasks, read from a folder or from the Hub."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from opencse.arrays import Floats
from opencse.errors import UserError, nearest
from opencse.evaluation.pairs import (
    COLUMNS,
    GradedRow,
    ScoredPairs,
    read_scored_pairs,
    scored_pairs,
)
from opencse.evaluation.record import TextForm
from opencse.evaluation.suite import TaskData
from opencse.io import require_folder
from opencse.text.files.data_sets import load_data_set
from opencse.text.files.formats import choose_columns

SPLIT = "test"
HUB = "hub"


@dataclass(frozen=True)
class StsTask:
    """One STS task as published.

    Attributes:
        key: name in results and folders, for instance ``sts12``.
        title: name in tables, for instance ``STS12``.
        pairs: the published number of test pairs.
        subsets: names of its files, in published order; ``("test",)`` for a task of one file.
        hub: name of the data set in the Hub's ``mteb`` space.
        lower_cased: whether the text the papers evaluate is lower-cased.
    """

    key: str
    title: str
    pairs: int
    subsets: tuple[str, ...]
    hub: str
    lower_cased: bool = True


TASKS: dict[str, StsTask] = {
    task.key: task
    for task in (
        StsTask(
            "sts12",
            "STS12",
            3108,
            ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
            "sts12-sts",
        ),
        StsTask("sts13", "STS13", 1500, ("FNWN", "headlines", "OnWN"), "sts13-sts"),
        StsTask(
            "sts14",
            "STS14",
            3750,
            ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
            "sts14-sts",
        ),
        StsTask(
            "sts15",
            "STS15",
            3000,
            ("answers-forums", "answers-students", "belief", "headlines", "images"),
            "sts15-sts",
        ),
        StsTask(
            "sts16",
            "STS16",
            1186,
            ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
            "sts16-sts",
        ),
        StsTask("stsb", "STS-B", 1379, (SPLIT,), "stsbenchmark-sts"),
        StsTask("sickr", "SICK-R", 4927, (SPLIT,), "sickr-sts", lower_cased=False),
    )
}
"""The seven tasks in the order of every published table; STS13 is without its SMT subset, as published."""


@dataclass(frozen=True)
class TaskPairs:
    """The pairs of one STS task.

    Attributes:
        task: what is published about it.
        parts: its subsets in published order, or one part with all pairs where the source does not separate subsets.
    """

    task: StsTask
    parts: tuple[ScoredPairs, ...]

    @property
    def n(self) -> int:
        """The number of pairs."""
        return sum(len(part) for part in self.parts)

    @property
    def gold(self) -> Floats:
        """The gold scores (n,) of all parts, one after another."""
        return np.concatenate([part.scores for part in self.parts])

    @property
    def complete(self) -> bool:
        """Whether the number of pairs is the published one; if not, published scores do not compare."""
        return self.n == self.task.pairs

    @property
    def has_subsets(self) -> bool:
        """Whether the parts are the published subsets (true for a task of one file)."""
        return len(self.parts) == len(self.task.subsets)

    def texts(self) -> Iterator[list[str]]:
        """Yields both sides of each part."""
        for part in self.parts:
            yield from (part.first, part.second)

    def sha256(self) -> str:
        """Returns a hash of the ``score<TAB>sentence1<TAB>sentence2`` lines, the same from any kind of file."""
        digest = hashlib.sha256()
        for part in self.parts:
            for score, one, two in zip(part.scores.tolist(), part.first, part.second, strict=True):
                digest.update(f"{score!r}\t{one}\t{two}\n".encode())
        return digest.hexdigest()


StsData = TaskData[TaskPairs]


def choose_tasks(keys: Sequence[str] | None) -> list[StsTask]:
    """Returns the tasks of these keys in the order of ``TASKS``; all seven for None.

    Raises:
        UserError: for no key at all or one that is unknown.
    """
    if keys is None:
        return list(TASKS.values())
    for key in keys:
        if key not in TASKS:
            raise UserError(f"unknown STS task {key!r}{nearest(key, TASKS)}; tasks: {', '.join(TASKS)}")
    if not keys:
        raise UserError(f"no STS task chosen; tasks: {', '.join(TASKS)}")
    return [task for key, task in TASKS.items() if key in keys]


def load_sts(folder: Path, tasks: Sequence[str] | None = None) -> StsData:
    """Reads the tasks of a local folder: ``<task>/<subset>.tsv`` for each name in ``TASKS[task].subsets``.

    The text is used as written. It is called ``prepared`` if no letter of STS12 to STS-B is a capital, as
    in the papers' data, else ``raw`` (``unknown`` if none of these tasks is read). Other files, such as
    ``stsb/dev.tsv``, are ignored.

    Args:
        folder: holds one folder per task.
        tasks: keys of ``TASKS``; all seven for None.

    Raises:
        UserError: naming the first missing file and the files in its folder, or a fault in a file's line.
    """
    folder = Path(folder)
    require_folder(folder, f"give a folder that holds {', '.join(TASKS)}; --data hub downloads them")
    loaded: dict[str, TaskPairs] = {}
    for task in choose_tasks(tasks):
        files = [folder / task.key / f"{subset}.tsv" for subset in task.subsets]
        for file in files:
            if not file.is_file():
                raise UserError(_missing(folder, task, file))
        loaded[task.key] = TaskPairs(task, tuple(read_scored_pairs(file) for file in files))
    return StsData(str(folder), text_form(loaded), loaded)


def _missing(folder: Path, task: StsTask, file: Path) -> str:
    task_folder = folder / task.key
    if not task_folder.is_dir():
        entries = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
        known = [key for key in TASKS if key in entries]
        if inner := next((name for name in entries if (folder / name / task.key).is_dir()), None):
            return f"{file}: missing; {folder / inner} holds {task.key}: give that folder"
        return (
            f"{file}: missing; folders in {folder}: {', '.join(entries) or 'none'}; "
            f"add {task.key}, or choose tasks without it (--tasks {','.join(known) or 'stsb'})"
        )
    entries = sorted(entry.name for entry in task_folder.iterdir())
    expected = ", ".join(f"{subset}.tsv" for subset in task.subsets)
    return f"{file}: missing; found in {task_folder}: {', '.join(entries) or 'nothing'}; {task.title} needs {expected}"


def text_form(loaded: Mapping[str, TaskPairs]) -> TextForm:
    """Recognises whether the texts are as published or as the papers prepared them; see `load_sts`."""
    lower_cased = [pairs for pairs in loaded.values() if pairs.task.lower_cased]
    if not lower_cased:
        return "unknown"
    characters = set[str]().union(*(text for pairs in lower_cased for side in pairs.texts() for text in side))
    return "raw" if any(character.isupper() for character in characters) else "prepared"


def load_sts_hub(tasks: Sequence[str] | None = None, *, root: str | Path = "mteb") -> StsData:
    """Loads the tasks from the Hub: split ``test``, columns ``score``, ``sentence1``, ``sentence2``.

    The text there is raw (original casing, not tokenised) and the years' subsets are not separated, so
    ``mean`` and ``wmean`` of STS12 to STS16 stay empty. SICK-R there holds train, dev and test in one (9,927
    pairs instead of 4,927) and is marked as not complete: prefer the papers' data in a folder.

    Args:
        tasks: keys of ``TASKS``; all seven for None.
        root: the Hub space, or a local folder that holds ``sts12-sts`` and so on as `datasets` can load them.

    Raises:
        UserError: if a data set cannot be loaded, lacks a column, or a row is at fault.
    """
    loaded: dict[str, TaskPairs] = {}
    for task in choose_tasks(tasks):
        name = f"{root}/{task.hub}"
        dataset = load_data_set(name, SPLIT, "without a network, give a local folder of STS files")
        choose_columns(COLUMNS, dataset.column_names, name)
        pairs = scored_pairs(name, _rows(dataset, name), name=SPLIT)
        loaded[task.key] = TaskPairs(task, (pairs,))
    return StsData(f"{root}/*-sts, split {SPLIT}", "raw", loaded)


def _rows(dataset: Any, name: str) -> Iterator[GradedRow]:  # noqa: ANN401 - `datasets` is untyped
    for number, row in enumerate(dataset.select_columns(list(COLUMNS)), start=1):
        yield f"{name}, row {number}", [row[column] for column in COLUMNS]
