"""Results of STS evaluations, made up."""

from __future__ import annotations

from opencse.environment import Environment
from opencse.evaluation import TASKS, DataRecord, EvaluationRecord, Score, Sts


def task_scores(key: str, value: float, *, complete: bool = True) -> list[Score]:
    """Spearman ``all`` is ``value``."""
    task = TASKS[key]
    values = {"spearman": value, "spearman.mean": value + 1, "spearman.wmean": value + 2, "pearson": value - 1}
    values |= {f"spearman.{name}": value + k / 10 for k, name in enumerate(task.subsets)}
    return [
        Score(suite="sts", task=key, measure=measure, value=one, n=task.pairs, complete=complete)
        for measure, one in values.items()
    ]


def sts_result(tasks: dict[str, list[Score]]) -> EvaluationRecord:
    return EvaluationRecord(
        model="m",
        pooling="cls",
        data=DataRecord(source="folder", text="prepared", sha256=dict.fromkeys(tasks, "0" * 64)),
        environment=Environment.here("cpu"),
        seconds=1.5,
        scores=[*(one for several in tasks.values() for one in several), *Sts().averages(tasks)],
    )


def all_tasks() -> EvaluationRecord:
    """All seven tasks; Spearman ``all`` is 70 for the first, 71 for the second, and so on."""
    return sts_result({key: task_scores(key, 70.0 + i) for i, key in enumerate(TASKS)})
