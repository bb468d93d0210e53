"""STS by regression: how well does a small supervised model predict similarity from two frozen sentence vectors?

Protocol of SentEval (Conneau and Kiela 2018, after Tai et al. 2015) for STS Benchmark and SICK relatedness, with the
dev choice by Spearman of SimCSE's copy. SimCSE's Table B.1 lists the papers that use it; their scores do not
compare with scores of cosines.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from opencse.errors import UserError, nearest
from opencse.evaluation.embedding import Embedded
from opencse.evaluation.labelled import listed
from opencse.evaluation.pairs import ScoredPairs, read_scored_pairs
from opencse.evaluation.record import EvaluationRecord, SuiteScore
from opencse.evaluation.sts import TASKS, StsTask, TaskPairs, load_sts
from opencse.evaluation.suite import Options, Suite, TaskData
from opencse.evaluation.table import MODEL, Cell, TableRow, results_table
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


class RegressorScore(SuiteScore):
    """The scores of one task of STS by regression, correlations x 100.

    Attributes:
        spearman: of the test set.
        pearson: of the test set.
        dev_spearman: the best dev check, by which the fit was selected; never report it as the task's.
        passes: over the training set.
        examples: pairs by part.
        complete: whether these are the published numbers; if not, do not compare with published values.
        seconds: wall-clock time of the fit.
    """

    spearman: FiniteFloat
    pearson: FiniteFloat
    dev_spearman: FiniteFloat
    passes: int
    examples: dict[str, int]
    complete: bool
    seconds: FiniteFloat

    def measures(self) -> dict[str, float]:
        """Spearman of the test set."""
        return {"": self.spearman}


class RegressorResult(EvaluationRecord):
    """The record of an evaluation by regression: ``sts_regressor.<task>.spearman`` and so on."""

    key = "sts_regressor"
    sts_regressor: dict[str, RegressorScore]

    def scores(self) -> Mapping[str, RegressorScore]:
        """See ``EvaluationRecord``."""
        return self.sts_regressor


@dataclass(frozen=True)
class Regression(Suite[GradedSplit, RegressorScore, RegressorResult]):
    """Scores each task by a regressor that is fitted on train, selected by Spearman on dev, and tested once.

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

    def score(self, task: GradedSplit, embedded: Embedded, device: str = "cpu") -> RegressorScore:
        """See ``Suite``; a pair's features are [|u - v|, u * v] (2 d,), float32, see ``classifiers.regressor.fit``."""
        from opencse.evaluation.classifiers import Regressor, fit

        def features(pairs: ScoredPairs) -> NDArray[np.float32]:
            return embedded.pair_features(pairs.first, pairs.second)

        def check(regressor: Regressor) -> float:
            return spearman(regressor.predict(of_dev), dev.scores)

        started = time.perf_counter()
        train, dev, test = (_sorted_pairs(task.parts[part]) for part in PARTS)
        of_dev = features(dev)
        fitted = fit(features(train), train.scores, check, device=device)
        grades = fitted.predict(features(test))
        return RegressorScore(
            spearman=100 * spearman(grades, test.scores),
            pearson=100 * pearson(grades, test.scores),
            dev_spearman=100 * fitted.dev,
            passes=fitted.passes,
            examples=task.counts,
            complete=task.counts == PUBLISHED[task.task.key],
            seconds=time.perf_counter() - started,
        )

    def record(self, scores: dict[str, RegressorScore], common: Mapping[str, Any]) -> RegressorResult:
        """See ``Suite``."""
        return RegressorResult(**common, sts_regressor=scores)

    def line(self, task: GradedSplit, score: RegressorScore) -> str:
        """See ``Suite``."""
        line = f"{task.task.title}: Spearman {score.spearman:.2f}, Pearson {score.pearson:.2f}"
        line += f" ({listed(score.examples)}; {score.passes:,} passes; {score.seconds:.1f} s)"
        if not score.complete:
            published = listed(PUBLISHED[task.task.key])
            line += f" (published: {published}, so this does not compare with published values)"
        return line

    @classmethod
    def table(cls, results: Mapping[str, RegressorResult]) -> Table:
        """Lays out Spearman and Pearson x 100, one row per model; ``*`` marks other numbers of pairs than published."""
        headers = [f"{TASKS[key].title} {name}" for key in PUBLISHED for name in ("Spearman", "Pearson")]
        rows: list[TableRow] = []
        for label, result in results.items():
            scores = [result.sts_regressor.get(key) for key in PUBLISHED]
            cells = [
                Cell(None) if score is None else Cell(value, score.complete)
                for score in scores
                for value in ((None, None) if score is None else (score.spearman, score.pearson))
            ]
            rows.append([label, *cells])
        title = "STS by a fitted regressor, test correlations x 100"
        return results_table(title, [MODEL], headers, rows, data="numbers of pairs")


def _sorted_pairs(pairs: ScoredPairs) -> ScoredPairs:
    """Sorts pairs in SentEval's order, which the batches follow: by the numbers of words, then the score."""
    words = [(len(one.split()), len(two.split())) for one, two in zip(pairs.first, pairs.second, strict=True)]
    order = sorted(range(len(pairs)), key=lambda i: (*words[i], pairs.scores[i]))
    return ScoredPairs(
        pairs.name, pairs.scores[order], [pairs.first[i] for i in order], [pairs.second[i] for i in order]
    )
