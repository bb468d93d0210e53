"""What an STS evaluation found, and its tables."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import FiniteFloat, model_serializer, model_validator

from opencse.errors import require_known
from opencse.evaluation.record import EvaluationRecord
from opencse.evaluation.sts.data import TASKS
from opencse.evaluation.table import ABSENT, cell, table_of
from opencse.settings import Settings

if TYPE_CHECKING:
    from rich.table import Table

Aggregation = Literal["all", "mean", "wmean"]
Correlation = Literal["spearman", "pearson"]
TASKS_IN_AVERAGE = 7
HALVES = ("up to 3", "over 3")


class Score(Settings):
    """Both correlations of one set of n pairs, each x 100."""

    spearman: FiniteFloat
    pearson: FiniteFloat
    n: int

    def by(self, correlation: Correlation) -> float:
        """The correlation of that name."""
        return self.spearman if correlation == "spearman" else self.pearson


class Aggregates(Settings):
    """One task's correlation x 100, put together in three ways (SimCSE, appendix B).

    Attributes:
        all: one correlation over the concatenation of all subsets; what papers report.
        mean: unweighted mean of the subsets' correlations; None if the source knows no subsets.
        wmean: mean of the subsets' correlations weighted by their numbers of pairs; None likewise.
    """

    all: FiniteFloat
    mean: FiniteFloat | None
    wmean: FiniteFloat | None

    def by(self, aggregation: Aggregation) -> float | None:
        """The value of that name."""
        return {"all": self.all, "mean": self.mean, "wmean": self.wmean}[aggregation]


class LengthScore(Settings):
    """Spearman x 100 over the n pairs of one half of a length split."""

    spearman: FiniteFloat
    n: int


class LengthSplit(Settings):
    """One task's pairs by the difference of their sentences' lengths in words (ESimCSE, Tables 1 and 7).

    Attributes:
        up_to_3: pairs whose lengths differ by at most 3 words.
        over_3: all others.
    """

    up_to_3: LengthScore
    over_3: LengthScore


class TaskScore(Settings):
    """The scores of one task.

    Attributes:
        spearman: x 100.
        pearson: x 100.
        subsets: by name in published order; empty if the source knows no subsets.
        n: pairs evaluated.
        complete: whether n is the published number; if not, do not compare with published values.
        by_length: Spearman by the difference in length; None where one half has no correlation (fewer than 2
            pairs, or one gold score throughout), and in results written before it was measured.
    """

    spearman: Aggregates
    pearson: Aggregates
    subsets: dict[str, Score]
    n: int
    complete: bool
    by_length: LengthSplit | None = None

    def by(self, correlation: Correlation, aggregation: Aggregation) -> float | None:
        """The value of that correlation and aggregation."""
        return {"spearman": self.spearman, "pearson": self.pearson}[correlation].by(aggregation)


class StsScores(Settings):
    """The scores by task; in JSON the tasks stand beside ``average``."""

    tasks: dict[str, TaskScore]
    average: FiniteFloat | None

    @classmethod
    def of(cls, tasks: Mapping[str, TaskScore]) -> StsScores:
        """The tasks' scores with their ``average``: of Spearman ``all``, None unless all seven are there."""
        scores = cls(tasks=dict(tasks), average=None)
        return cls(tasks=scores.tasks, average=scores.mean_over_tasks("spearman", "all"))

    def mean_over_tasks(self, correlation: Correlation, aggregation: Aggregation) -> float | None:
        """Plain mean over the seven tasks, x 100; None unless all seven have that value.

        SimCSE's script rounds each task to two decimals first, so its Avg. may differ by up to 0.01.
        """
        values = [task.by(correlation, aggregation) for task in self.tasks.values()]
        known = [value for value in values if value is not None]
        return sum(known) / len(known) if len(known) == len(values) == TASKS_IN_AVERAGE else None

    @model_serializer
    def _flat(self) -> dict[str, Any]:
        return {**{key: task.model_dump() for key, task in self.tasks.items()}, "average": self.average}

    @model_validator(mode="before")
    @classmethod
    def _nested(cls, data: Any) -> Any:  # noqa: ANN401 - pydantic hands over whatever was given
        if isinstance(data, dict) and "tasks" not in data:
            return {
                "tasks": {key: data[key] for key in data if key != "average"},
                "average": data.get("average"),
            }
        return data


class StsResult(EvaluationRecord):
    """An STS evaluation: ``sts.<task>.spearman.all`` and so on, and ``sts.average``."""

    sts: StsScores

    def values(self) -> dict[str, float]:
        """Spearman ``all`` x 100: ``sts.<task>``, and ``sts.average`` if all seven tasks are there."""
        flat = {f"sts.{key}": task.spearman.all for key, task in self.sts.tasks.items()}
        return flat if self.sts.average is None else {**flat, "sts.average": self.sts.average}


def sts_table(
    results: Mapping[str, StsResult],
    aggregation: Aggregation = "all",
    correlation: Correlation = "spearman",
    subsets: bool = False,
) -> Table:
    """Correlations x 100 with two decimals; ``-`` where there is none.

    Args:
        results: by label, in the order to show.
        aggregation: ``all``, ``mean`` or ``wmean``; the average is of the seven values shown.
        correlation: ``spearman`` or ``pearson``.
        subsets: False: a row a model, a column a task, and Avg.; True: a row a subset, a column a model
            (``aggregation`` then plays no part).

    Returns:
        A table; ``*`` marks a value over another number of pairs than published.

    Raises:
        UserError: for an unknown aggregation or correlation.
    """
    require_known(aggregation, typing.get_args(Aggregation), "aggregation")
    require_known(correlation, typing.get_args(Correlation), "correlation")
    return _by_subset(results, correlation) if subsets else _by_model(results, aggregation, correlation)


def _by_model(results: Mapping[str, StsResult], aggregation: Aggregation, correlation: Correlation) -> Table:
    rows = []
    for label, result in results.items():
        scores = [result.sts.tasks.get(key) for key in TASKS]
        cells = [
            ABSENT if score is None else cell(score.by(correlation, aggregation), complete=score.complete)
            for score in scores
        ]
        rows.append([label, *cells, cell(result.sts.mean_over_tasks(correlation, aggregation))])
    titles = [task.title for task in TASKS.values()]
    title = f"STS, {correlation.capitalize()} x 100, {aggregation}"
    return table_of(title, ["Model"], [*titles, "Avg."], rows, _notes(results))


def _by_subset(results: Mapping[str, StsResult], correlation: Correlation) -> Table:
    rows = []
    for key, task in TASKS.items():
        scores = [result.sts.tasks.get(key) for result in results.values()]
        for name in task.subsets if any(scores) else ():
            parts = [(score.complete, score.subsets.get(name)) if score else (True, None) for score in scores]
            sizes = sorted({part.n for _, part in parts if part is not None})
            cells = [
                ABSENT if part is None else cell(part.by(correlation), complete=complete) for complete, part in parts
            ]
            rows.append([task.title, name, "/".join(f"{n:,}" for n in sizes) or ABSENT, *cells])
    title = f"STS by subset, {correlation.capitalize()} x 100"
    return table_of(title, ["Task", "Subset"], ["Pairs", *results], rows, _notes(results), grouped=True)


def _notes(results: Mapping[str, StsResult]) -> list[str]:
    complete = all(task.complete for result in results.values() for task in result.sts.tasks.values())
    return [] if complete else ["* not the published number of pairs: does not compare with published values"]


def length_table(results: Mapping[str, StsResult]) -> Table:
    """Spearman x 100 of the pairs whose lengths differ by up to 3 words, and of the others (ESimCSE, Tables 1, 7).

    Args:
        results: by label, in the order to show.

    Returns:
        Two rows a model and a column a task (those that some result has), then the plain mean over the model's
        tasks; ``-`` where there is no value, and in the mean if any of the model's tasks has none. The first two
        rows tell the numbers of pairs.
    """
    keys = [key for key in TASKS if any(key in result.sts.tasks for result in results.values())]
    sizes: dict[str, dict[str, set[int]]] = {half: {key: set() for key in keys} for half in HALVES}
    rows = []
    for label, result in results.items():
        splits = [result.sts.tasks[key].by_length if key in result.sts.tasks else None for key in keys]
        means = mean_by_length(result.sts) or (None, None)
        for number, half in enumerate(HALVES):
            found = [None if split is None else (split.up_to_3, split.over_3)[number] for split in splits]
            for key, score in zip(keys, found, strict=True):
                sizes[half][key] |= set() if score is None else {score.n}
            cells = [cell(None if score is None else score.spearman) for score in found]
            rows.append([label, half, *cells, cell(means[number])])
    pairs = [
        ["pairs", half, *("/".join(f"{n:,}" for n in sorted(counts)) or ABSENT for counts in by_key.values()), ABSENT]
        for half, by_key in sizes.items()
    ]
    titles = [TASKS[key].title for key in keys]
    title = "STS by difference in length (words), Spearman x 100"
    return table_of(title, ["Model", "Difference"], [*titles, "Avg."], pairs + rows, grouped=True)


def mean_by_length(scores: StsScores) -> tuple[float, float] | None:
    """Plain means over the tasks of Spearman x 100: up to 3 words, over 3; None unless every task has both."""
    splits = [task.by_length for task in scores.tasks.values()]
    known = [split for split in splits if split is not None]
    if not known or len(known) != len(splits):
        return None
    return (
        sum(split.up_to_3.spearman for split in known) / len(known),
        sum(split.over_3.spearman for split in known) / len(known),
    )
