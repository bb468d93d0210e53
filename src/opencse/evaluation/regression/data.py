"""STS Benchmark and SICK relatedness, with their training sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opencse.errors import UserError, nearest
from opencse.evaluation.pairs import ScoredPairs, read_scored_pairs
from opencse.evaluation.sts.data import TASKS, StsTask, TaskPairs, load_sts
from opencse.evaluation.suite import TaskData
from opencse.io import require_folder

PUBLISHED: dict[str, dict[str, int]] = {
    "stsb": {"train": 5749, "dev": 1500, "test": 1379},
    "sickr": {"train": 4500, "dev": 500, "test": 4927},
}
"""The two tasks that have a training set, and the published numbers of pairs."""

PARTS = ("train", "dev", "test")
HIGHEST = 5


@dataclass(frozen=True)
class GradedSplit:
    """One STS task with its training set.

    Attributes:
        task: what is published about it.
        parts: ``train``, ``dev`` and ``test`` pairs.
    """

    task: StsTask
    parts: dict[str, ScoredPairs]

    @property
    def counts(self) -> dict[str, int]:
        """The number of pairs by part."""
        return {name: len(pairs) for name, pairs in self.parts.items()}

    def texts(self) -> Iterator[list[str]]:
        """Yields both sides of each part."""
        return TaskPairs(self.task, tuple(self.parts.values())).texts()

    def sha256(self) -> str:
        """See ``TaskPairs.sha256``."""
        return TaskPairs(self.task, tuple(self.parts.values())).sha256()


RegressorData = TaskData[GradedSplit]


def load_sts_regressor(folder: Path, tasks: Sequence[str] | None = None) -> RegressorData:
    """Reads the tasks of a local folder of STS data.

    They are ``stsb`` and ``sickr``, each ``train.tsv``, ``dev.tsv``, ``test.tsv``.
    Lines are ``score<TAB>sentence1<TAB>sentence2``, scores from 0 to 5.

    Args:
        folder: holds one folder per task, as for ``load_sts``.
        tasks: ``stsb``, ``sickr`` or both; None: the ones in the folder.

    Raises:
        UserError: naming what is missing, or the file and line at fault.
    """
    folder = Path(folder)
    require_folder(folder, f"give a folder that holds {' or '.join(PUBLISHED)}")
    for key in tasks or ():
        if key not in PUBLISHED:
            raise UserError(
                f"the regressor has no task {key!r}{nearest(key, PUBLISHED)}; "
                f"tasks with a training set: {', '.join(PUBLISHED)}"
            )
    keys = [key for key in PUBLISHED if (key in tasks if tasks is not None else (folder / key).is_dir())]
    if not keys:
        which = "there" if tasks is None else "chosen"
        raise UserError(
            f"{folder}: no task for the regressor {which}; tasks with a training set: {' '.join(PUBLISHED)}"
        )
    tests = load_sts(folder, keys)
    loaded = {
        key: GradedSplit(TASKS[key], {part: _read(folder / key / f"{part}.tsv") for part in PARTS}) for key in keys
    }
    return RegressorData(str(folder), tests.text, loaded)


def _read(path: Path) -> ScoredPairs:
    pairs = read_scored_pairs(path)
    outside = np.flatnonzero((pairs.scores < 0) | (pairs.scores > HIGHEST))
    if len(outside):
        first = int(outside[0])
        raise UserError(
            f"{path}: pair {first + 1} ({pairs.first[first][:40]!r}) has the score {pairs.scores[first]:g}; "
            f"the regressor's grades are from 0 to {HIGHEST}, so scale the scores"
        )
    return pairs
