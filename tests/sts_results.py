"""Results of STS evaluations, made up."""

from __future__ import annotations

from opencse.environment import Environment
from opencse.evaluation import TASKS, Aggregates, DataRecord, Score, StsResult, StsScores, TaskScore


def task_score(key: str, value: float) -> TaskScore:
    task = TASKS[key]
    values = Aggregates(all=value, mean=value + 1, wmean=value + 2)
    subsets = {
        name: Score(spearman=value + k / 10, pearson=value - k / 10, n=k + 2) for k, name in enumerate(task.subsets)
    }
    pearson = Aggregates(all=value - 1, mean=value - 2, wmean=value - 3)
    return TaskScore(spearman=values, pearson=pearson, subsets=subsets, n=task.pairs, complete=True)


def sts_result(tasks: dict[str, TaskScore]) -> StsResult:
    return StsResult(
        model="m",
        pooling="cls",
        data=DataRecord(source="folder", text="prepared", sha256=dict.fromkeys(tasks, "0" * 64)),
        environment=Environment.here("cpu"),
        seconds=1.5,
        sts=StsScores.of(tasks),
    )


def all_tasks() -> StsResult:
    """All seven tasks; Spearman ``all`` is 70 for the first, 71 for the second, and so on."""
    return sts_result({key: task_score(key, 70.0 + i) for i, key in enumerate(TASKS)})
