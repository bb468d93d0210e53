"""STS by regression: how well does a small supervised model predict similarity from two frozen sentence vectors?

Protocol of SentEval (Conneau and Kiela 2018, after Tai et al. 2015) for STS Benchmark and SICK relatedness, with the
dev choice by Spearman of SimCSE's copy. SimCSE's Table B.1 lists the papers that use it; their scores do not
compare with scores of cosines.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError
from opencse.evaluation.embedding import Embedded
from opencse.evaluation.labelled import listed
from opencse.evaluation.pairs import ScoredPairs, read_scored_pairs
from opencse.evaluation.record import EvaluationRecord, Score
from opencse.evaluation.sts import TASKS, TaskPairs, load_sts
from opencse.evaluation.suite import Options, Suite, TaskData, chosen
from opencse.evaluation.table import scores_table
from opencse.files import require_folder
from opencse.statistics.correlation import pearson, spearman

if TYPE_CHECKING:
    from rich.table import Table

PUBLISHED: dict[str, dict[str, int]] = {
    "stsb": {"train": 5749, "dev": 1500, "test": 1379},
    "sickr": {"train": 4500, "dev": 500, "test": 4927},
}
"""The two tasks that have a training set, and the published numbers of pairs."""

PARTS = ("train", "dev", "test")
HIGHEST = 5


RegressorData = TaskData[TaskPairs]


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
    there = [key for key in PUBLISHED if tasks is not None or (folder / key).is_dir()]
    keys = chosen(tasks, there, "task with a training set", folder, PUBLISHED)
    tests = load_sts(folder, keys)
    loaded = {key: TaskPairs(TASKS[key], tuple(_read(folder / key / f"{part}.tsv") for part in PARTS)) for key in keys}
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


@dataclass(frozen=True)
class Regression(Suite[TaskPairs]):
    """Scores each task by a regressor that is fitted on train, selected by Spearman on dev, and tested once.

    The extras of ``spearman`` are ``dev_spearman`` (the best dev check, by which the fit was selected; never report
    it as the task's), ``passes`` over the training set, ``examples`` by part, and ``seconds``.

    Attributes:
        device: see ``Suite``.
    """

    name = "sts-regressor"
    title = "STS regressor"
    folder = "sts"
    device: str | None = None

    @classmethod
    def of(cls, options: Options) -> Self:
        """See ``Suite``."""
        return cls(options.device)

    def load(self, folder: Path, tasks: Sequence[str] | None = None) -> RegressorData:
        """See ``load_sts_regressor``."""
        return load_sts_regressor(folder, tasks)

    def score(self, name: str, task: TaskPairs, embedded: Embedded, device: str = "cpu") -> list[Score]:
        """See ``Suite``; a pair's features are [|u - v|, u * v] (2 d,), float32, see ``classifiers.regressor.fit``."""
        from opencse.evaluation.classifiers import Regressor, fit

        def features(pairs: ScoredPairs) -> NDArray[np.float32]:
            return embedded.pair_features(pairs.first, pairs.second)

        def check(regressor: Regressor) -> float:
            return spearman(regressor.predict(of_dev), dev.scores)

        started = time.perf_counter()
        train, dev, test = map(_sorted_pairs, task.parts)
        of_dev = features(dev)
        fitted = fit(features(train), train.scores, check, device=device)
        grades = fitted.predict(features(test))
        values = {"spearman": 100 * spearman(grades, test.scores), "pearson": 100 * pearson(grades, test.scores)}
        extras: dict[str, Any] = {
            "dev_spearman": 100 * fitted.dev,
            "passes": fitted.passes,
            "examples": task.counts,
            "seconds": time.perf_counter() - started,
        }
        complete = task.counts == PUBLISHED[task.task.key]
        first, second = (
            Score(suite=self.name, task=name, measure=measure, value=value, n=len(test), complete=complete)
            for measure, value in values.items()
        )
        return [first.model_copy(update={"extras": extras}), second]

    def line(self, task: TaskPairs, scores: Sequence[Score]) -> str:
        """See ``Suite``."""
        extras = scores[0].extras
        line = f"{task.task.title}: Spearman {scores[0].value:.2f}, Pearson {scores[1].value:.2f}"
        line += f" ({listed(task.counts)}; {extras['passes']:,} passes; {extras['seconds']:.1f} s)"
        if not scores[0].complete:
            published = listed(PUBLISHED[task.task.key])
            line += f" (published: {published}, so this does not compare with published values)"
        return line

    @classmethod
    def table(cls, results: Mapping[str, EvaluationRecord]) -> Table:
        """Lays out Spearman and Pearson x 100, one row per model; ``*`` marks other numbers of pairs than published."""
        measures = ("spearman", "pearson")
        columns = [(f"{TASKS[key].title} {one.capitalize()}", key, one) for key in PUBLISHED for one in measures]
        title = "STS by a fitted regressor, test correlations x 100"
        return scores_table(title, results, columns, data="numbers of pairs")


def _sorted_pairs(pairs: ScoredPairs) -> ScoredPairs:
    """Sorts pairs in SentEval's order, which the batches follow: by the numbers of words, then the score."""
    words = [(len(one.split()), len(two.split())) for one, two in zip(pairs.first, pairs.second, strict=True)]
    order = sorted(range(len(pairs)), key=lambda i: (*words[i], pairs.scores[i]))
    return ScoredPairs(
        pairs.name, pairs.scores[order], [pairs.first[i] for i in order], [pairs.second[i] for i in order]
    )
