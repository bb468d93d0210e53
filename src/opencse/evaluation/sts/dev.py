"""The development pairs of STS Benchmark, by which the papers select their models and report their ablations.

They are scored as `opencse.evaluation.sts.score` scores a task. The papers' ablation tables print these values; where
the same pairs also selected the model, as in those papers, the value is too high.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from opencse.arrays import Floats
from opencse.errors import UserError, nearest
from opencse.evaluation.embedding import Embedded
from opencse.evaluation.pairs import read_scored_pairs
from opencse.evaluation.record import EvaluationRecord
from opencse.evaluation.sts.data import StsData, StsTask, TaskPairs, text_form
from opencse.evaluation.sts.result import TaskScore
from opencse.evaluation.sts.score import Sts
from opencse.evaluation.suite import Options, Suite
from opencse.evaluation.table import MODEL, Cell, TableRow, results_table

if TYPE_CHECKING:
    from rich.table import Table

TASK = StsTask("stsb", "STS-B dev", 1500, ("dev",), "stsbenchmark-sts")


class StsDevResult(EvaluationRecord):
    """The record of an evaluation on development pairs: ``dev.stsb.spearman.all`` and so on."""

    key = "dev"
    dev: dict[str, TaskScore]

    def scores(self) -> Mapping[str, TaskScore]:
        """See ``EvaluationRecord``."""
        return self.dev


@dataclass(frozen=True)
class StsDev(Suite[TaskPairs, TaskScore, StsDevResult]):
    """Scores the development pairs by Spearman's and Pearson's correlation, x 100; with the arrays of `Sts`."""

    name = "dev"
    title = "STS-B dev"
    folder = "sts"

    @classmethod
    def of(cls, options: Options) -> Self:
        """See ``Suite``; this suite has no options."""
        return cls()

    def load(self, folder: Path, tasks: Sequence[str] | None = None) -> StsData:
        """``stsb/dev.tsv`` of a local folder of STS data.

        Raises:
            UserError: for a file that is missing or at fault, or another task.
        """
        for key in tasks or ():
            if key != TASK.key:
                raise UserError(
                    f"the dev suite has no task {key!r}{nearest(key, [TASK.key])}; its one task: {TASK.key}"
                )
        file = Path(folder) / TASK.key / "dev.tsv"
        if not file.is_file():
            raise UserError(f"{file}: missing; the dev suite reads the development pairs of STS Benchmark there")
        loaded = {TASK.key: TaskPairs(TASK, (read_scored_pairs(file),))}
        return StsData(str(folder), text_form(loaded), loaded)

    def score(self, task: TaskPairs, embedded: Embedded, device: str = "cpu") -> TaskScore:
        """See ``score_task``."""
        return Sts().score(task, embedded, device)

    def arrays(self, name: str, task: TaskPairs, embedded: Embedded) -> dict[str, Floats]:
        """See `Sts`."""
        return Sts().arrays(name, task, embedded)

    def record(self, scores: dict[str, TaskScore], common: Mapping[str, Any]) -> StsDevResult:
        """See ``Suite``."""
        return StsDevResult(**common, dev=scores)

    def line(self, task: TaskPairs, score: TaskScore) -> str:
        """See ``Suite``."""
        return Sts().line(task, score)

    @classmethod
    def table(cls, results: Mapping[str, StsDevResult]) -> Table:
        """Lays out correlations x 100, one row per model; ``*`` marks another number of pairs than published."""
        rows: list[TableRow] = [
            [label, Cell(score.spearman.all, score.complete), Cell(score.pearson.all, score.complete)]
            for label, result in results.items()
            for score in result.dev.values()
        ]
        headers = ["Spearman", "Pearson"]
        return results_table("STS-B dev, correlations x 100", [MODEL], headers, rows, data="number of pairs")
