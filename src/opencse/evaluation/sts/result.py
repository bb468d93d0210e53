"""The scores of an STS evaluation, as its record holds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import FiniteFloat, model_serializer, model_validator

from opencse.evaluation.record import EvaluationRecord, SuiteScore
from opencse.evaluation.sts.data import TASKS
from opencse.settings import Settings

Aggregation = Literal["all", "mean", "wmean"]
Grouping = Literal["mean", "wmean", "up_to_3", "over_3"]
"""Other ways to score a task: by aggregation of its subsets, or of pairs by their difference in length."""
Correlation = Literal["spearman", "pearson"]


class Score(Settings):
    """Both correlations of one set of n pairs, each x 100."""

    spearman: FiniteFloat
    pearson: FiniteFloat
    n: int

    def by(self, correlation: Correlation) -> float:
        """Returns the correlation of that name."""
        return self.spearman if correlation == "spearman" else self.pearson


class Aggregates(Settings):
    """The correlation of one task x 100, aggregated over its subsets in three ways (SimCSE, appendix B).

    Attributes:
        all: one correlation over the concatenation of all subsets; what papers report.
        mean: unweighted mean of the subsets' correlations; None if the source does not separate subsets.
        wmean: mean of the subsets' correlations weighted by their numbers of pairs; None likewise.
    """

    all: FiniteFloat
    mean: FiniteFloat | None
    wmean: FiniteFloat | None

    def by(self, aggregation: Aggregation) -> float | None:
        """Returns the value of that name."""
        return {"all": self.all, "mean": self.mean, "wmean": self.wmean}[aggregation]


class LengthScore(Settings):
    """Spearman x 100 over the n pairs of one half of a length split."""

    spearman: FiniteFloat
    n: int


class LengthSplit(Settings):
    """The scores of one task's pairs by the difference of their lengths in words (ESimCSE, Tables 1 and 7).

    Attributes:
        up_to_3: pairs whose lengths differ by at most 3 words.
        over_3: all others.
    """

    up_to_3: LengthScore
    over_3: LengthScore


class TaskScore(SuiteScore):
    """The scores of one STS task.

    Attributes:
        spearman: x 100.
        pearson: x 100.
        subsets: by name in published order; empty if the source does not separate subsets.
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
        """Returns the value of that correlation and aggregation."""
        return {"spearman": self.spearman, "pearson": self.pearson}[correlation].by(aggregation)

    def measures(self) -> dict[str, float]:
        """Spearman ``all``."""
        return {"": self.spearman.all}


class StsScores(Settings):
    """The scores by task; in JSON the tasks are keys next to ``average``."""

    tasks: dict[str, TaskScore]
    average: FiniteFloat | None

    @classmethod
    def of(cls, tasks: Mapping[str, TaskScore]) -> StsScores:
        """Adds the ``average`` to the tasks' scores: of Spearman ``all``, None unless all seven are given."""
        scores = cls(tasks=dict(tasks), average=None)
        return cls(tasks=scores.tasks, average=scores.mean_over_tasks("spearman", "all"))

    def also_by(self, grouping: Grouping) -> dict[str, float]:
        """Spearman x 100 by ``sts_GROUPING.TASK``; of aggregations the average too, where all seven are given."""
        if grouping == "up_to_3" or grouping == "over_3":
            splits = {name: task.by_length for name, task in self.tasks.items() if task.by_length is not None}
            halves = {name: one.up_to_3 if grouping == "up_to_3" else one.over_3 for name, one in splits.items()}
            return {f"sts_{grouping}.{name}": half.spearman for name, half in halves.items()}
        scores = {name: task.by("spearman", grouping) for name, task in self.tasks.items()}
        scores["average"] = self.mean_over_tasks("spearman", grouping)
        return {f"sts_{grouping}.{name}": score for name, score in scores.items() if score is not None}

    def mean_over_tasks(self, correlation: Correlation, aggregation: Aggregation) -> float | None:
        """Plain mean over the seven tasks, x 100; None unless all seven have that value.

        SimCSE's script rounds each task to two decimals first, so its Avg. may differ by up to 0.01.
        """
        values = [task.by(correlation, aggregation) for task in self.tasks.values()]
        known = [value for value in values if value is not None]
        return sum(known) / len(known) if len(known) == len(values) == len(TASKS) else None

    @model_serializer
    def _flat(self) -> dict[str, Any]:
        return {**{key: task.model_dump() for key, task in self.tasks.items()}, "average": self.average}

    @model_validator(mode="before")
    @classmethod
    def _nested(cls, data: Any) -> Any:  # noqa: ANN401 - pydantic passes whatever is in the file
        if isinstance(data, dict) and "tasks" not in data:
            tasks = {key: data[key] for key in data if key != "average"}
            return {"tasks": tasks, "average": data.get("average")}
        return data


class StsResult(EvaluationRecord):
    """The record of an STS evaluation: ``sts.<task>.spearman.all`` and so on, and ``sts.average``."""

    key = "sts"
    sts: StsScores

    def scores(self) -> Mapping[str, TaskScore]:
        """See ``EvaluationRecord``."""
        return self.sts.tasks

    def means(self) -> dict[str, float | None]:
        """``average``: over the seven tasks."""
        return {"average": self.sts.average}
