"""STS Benchmark's development pairs, on which the papers choose their models and judge their ablations.

Scored as `opencse.evaluation.sts.score` scores a task. A number found here is one that the papers' ablation tables
print; where the same pairs chose the model too, as there, it flatters it.
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
from opencse.evaluation.table import cell, table_of

if TYPE_CHECKING:
    from rich.table import Table

TASK = StsTask("stsb", "STS-B dev", 1500, ("dev",), "stsbenchmark-sts")


class StsDevResult(EvaluationRecord):
    """An evaluation on development pairs: ``dev.stsb.spearman.all`` and so on."""

    dev: dict[str, TaskScore]

    def values(self) -> dict[str, float]:
        """Spearman x 100: ``dev.stsb``, as the recipes' published numbers call it."""
        return {f"dev.{key}": score.spearman.all for key, score in self.dev.items()}


@dataclass(frozen=True)
class StsDev(Suite[TaskPairs, TaskScore, StsDevResult]):
    """Spearman and Pearson, x 100, of the development pairs; kept for tests over pairs: as `Sts` does."""

    name = "dev"
    title = "STS-B dev"
    folder = "sts"

    @classmethod
    def of(cls, options: Options) -> Self:
        """See ``Suite``; there is nothing to choose."""
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

    def record(self, scores: dict[str, TaskScore], told: Mapping[str, Any]) -> StsDevResult:
        """See ``Suite``."""
        return StsDevResult(**told, dev=scores)

    def line(self, task: TaskPairs, score: TaskScore) -> str:
        """See ``Suite``."""
        return Sts().line(task, score)

    @classmethod
    def table(cls, results: Mapping[str, StsDevResult]) -> Table:
        """Correlations x 100, a row a model; ``*`` marks another number of pairs than published."""
        rows = [
            [label, *(cell(value, complete=score.complete) for value in (score.spearman.all, score.pearson.all))]
            for label, result in results.items()
            for score in result.dev.values()
        ]
        complete = all(score.complete for result in results.values() for score in result.dev.values())
        notes = [] if complete else ["* not the published number of pairs: does not compare with published values"]
        return table_of("STS-B dev, correlations x 100", ["Model"], ["Spearman", "Pearson"], rows, notes)
