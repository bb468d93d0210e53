"""STS: does the cosine of two sentences rank pairs as people rank their similarity?

Protocol of SimCSE (Gao et al. 2021, appendix B), which later papers share: no truncation by evaluation, cosine
of the sentence vectors, Spearman's correlation with the gold scores; for the years 2012 to 2016 over the
concatenation of the subsets (``all``), in addition to ``mean`` and ``wmean``; the average is over seven tasks.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from pydantic import FiniteFloat, model_serializer, model_validator

from opencse.arrays import Floats
from opencse.errors import require_known
from opencse.evaluation.embedding import Embedded
from opencse.evaluation.record import EvaluationRecord, SuiteScore
from opencse.evaluation.sts.data import HUB, TASKS, StsData, TaskPairs, load_sts, load_sts_hub
from opencse.evaluation.suite import Options, Suite
from opencse.evaluation.table import ABSENT, MODEL, Cell, TableRow, results_table
from opencse.numerals import number_of
from opencse.settings import Settings
from opencse.statistics.correlation import pearson, spearman

if TYPE_CHECKING:
    from rich.table import Table

SAME_LENGTH = 3
"""Words of difference up to which ESimCSE counts two sentences as of similar length."""
HALVES = ("up to 3", "over 3")

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


@dataclass(frozen=True)
class Sts(Suite[TaskPairs, TaskScore, StsResult]):
    """Scores every task and subset by Spearman's and Pearson's correlation, x 100.

    The arrays for tests over pairs are ``<task>.cosine`` and ``<task>.gold``, (n,), one subset after another.

    Example:
        >>> from opencse.evaluation import EmbeddingModel, ScoredPairs, StsData, TaskPairs
        >>> from opencse.evaluation.models.bag_of_words import BagOfWords
        >>> pairs = ScoredPairs("test", np.array([0.0, 5.0, 3.0]), ["red", "a cat", "a cat"], ["cat", "a cat", "a dog"])
        >>> data = StsData("three pairs", "unknown", {"stsb": TaskPairs(TASKS["stsb"], (pairs,))})
        >>> evaluation = Sts().evaluate(EmbeddingModel("bag of words", BagOfWords().encode), data)
        >>> {name: round(value, 2) for name, value in evaluation.record.values().items()}
        {'sts.stsb': 100.0}
    """

    name = "sts"
    title = "STS"
    folder = "sts"

    @classmethod
    def of(cls, options: Options) -> Self:
        """See ``Suite``; this suite has no options."""
        return cls()

    def load(self, folder: Path, tasks: Sequence[str] | None = None) -> StsData:
        """See ``load_sts``; ``hub`` instead of a folder: ``load_sts_hub``."""
        return load_sts_hub(tasks) if str(folder) == HUB else load_sts(folder, tasks)

    def score(self, task: TaskPairs, embedded: Embedded, device: str = "cpu") -> TaskScore:
        """See ``score_task``."""
        return score_task(task, _cosines(task, embedded))

    def arrays(self, name: str, task: TaskPairs, embedded: Embedded) -> dict[str, Floats]:
        """See the class."""
        return {f"{name}.gold": task.gold, f"{name}.cosine": np.concatenate(_cosines(task, embedded))}

    def record(self, scores: dict[str, TaskScore], common: Mapping[str, Any]) -> StsResult:
        """See ``Suite``."""
        return StsResult(**common, sts=StsScores.of(scores))

    def line(self, task: TaskPairs, score: TaskScore) -> str:
        """See ``Suite``."""
        line = f"{task.task.title}: Spearman {score.spearman.all:.2f} over {number_of(score.n, 'pair')}"
        if not score.complete:
            line += f" (published: of {task.task.pairs:,} pairs, so this does not compare with published values)"
        return line

    @classmethod
    def table(cls, results: Mapping[str, StsResult]) -> Table:
        """See ``sts_table``."""
        return sts_table(results)


def _cosines(task: TaskPairs, embedded: Embedded) -> list[Floats]:
    """Returns the cosines of each part's pairs."""
    return [embedded.cosines(part.first, part.second) for part in task.parts]


def score_task(pairs: TaskPairs, cosines: Sequence[Floats]) -> TaskScore:
    r"""Scores one task over its subsets :math:`S_1 \dots S_K`, :math:`|S_k| = n_k` (SimCSE, app. B).

    .. math:: \text{all} = \rho\Big(\bigcup_k S_k\Big), \quad
              \text{mean} = \frac1K \sum_k \rho(S_k), \quad
              \text{wmean} = \frac{\sum_k n_k\, \rho(S_k)}{\sum_k n_k}

    A task of one file has one value for the three; where the source does not separate subsets, the last two are None.
    """
    all_cosines, all_gold = np.concatenate(cosines), pairs.gold
    overall = _score(all_cosines, all_gold)
    parts: dict[str, Score] = {}
    if pairs.has_subsets:
        parts = {part.name: _score(c, part.scores) for part, c in zip(pairs.parts, cosines, strict=True)}
    sizes = [score.n for score in parts.values()]
    return TaskScore(
        spearman=_aggregates(overall.spearman, [score.spearman for score in parts.values()], sizes),
        pearson=_aggregates(overall.pearson, [score.pearson for score in parts.values()], sizes),
        subsets=parts,
        n=overall.n,
        complete=pairs.complete,
        by_length=length_split(
            all_cosines,
            all_gold,
            [text for part in pairs.parts for text in part.first],
            [text for part in pairs.parts for text in part.second],
        ),
    )


def length_split(cosines: Floats, gold: Floats, first: Sequence[str], second: Sequence[str]) -> LengthSplit | None:
    r"""Scores the pairs of similar length and the others, by Spearman (ESimCSE, section 1 and Tables 1, 7).

    .. math:: \rho\big(\{i : d_i \le 3\}\big), \quad \rho\big(\{i : d_i > 3\}\big), \quad
              d_i = \big|\,|x_i| - |y_i|\,\big|

    :math:`|x|` counts words between white space (the paper does not say what it counts). A task's subsets are
    taken together.

    Args:
        cosines: (n,).
        gold: (n,).
        first: n first sentences.
        second: n second sentences.

    Returns:
        Both correlations x 100, or None if one is undefined: fewer than 2 pairs, or equal gold scores.
    """
    lengths = [(len(one.split()), len(two.split())) for one, two in zip(first, second, strict=True)]
    near = np.array([abs(one - two) <= SAME_LENGTH for one, two in lengths], dtype=bool)
    if any(len(np.unique(gold[half])) < 2 for half in (near, ~near)):
        return None
    up_to_3, over_3 = (
        LengthScore(spearman=100 * spearman(cosines[half], gold[half]), n=int(half.sum())) for half in (near, ~near)
    )
    return LengthSplit(up_to_3=up_to_3, over_3=over_3)


def _score(cosines: Floats, gold: Floats) -> Score:
    return Score(spearman=100 * spearman(cosines, gold), pearson=100 * pearson(cosines, gold), n=len(gold))


def _aggregates(overall: float, parts: Sequence[float], sizes: Sequence[int]) -> Aggregates:
    if not parts:
        return Aggregates(all=overall, mean=None, wmean=None)
    if len(parts) == 1:
        return Aggregates(all=overall, mean=overall, wmean=overall)
    weighted = float(np.average(parts, weights=np.asarray(sizes, float)))
    return Aggregates(all=overall, mean=float(np.mean(parts)), wmean=weighted)


def sts_table(
    results: Mapping[str, StsResult],
    aggregation: Aggregation = "all",
    correlation: Correlation = "spearman",
    subsets: bool = False,
) -> Table:
    """Lays out correlations x 100 with two decimals; ``-`` where there is none.

    Args:
        results: by label, in the order to show.
        aggregation: ``all``, ``mean`` or ``wmean``; the average is of the seven values shown.
        correlation: ``spearman`` or ``pearson``.
        subsets: False: one row per model, one column per task, and Avg.; True: one row per subset, one column per
            model (``aggregation`` is not used).

    Returns:
        A table; ``*`` marks a value over another number of pairs than published.

    Raises:
        UserError: for an unknown aggregation or correlation.
    """
    require_known(aggregation, typing.get_args(Aggregation), "aggregation")
    require_known(correlation, typing.get_args(Correlation), "correlation")
    if subsets:
        return _by_subset(results, correlation)
    rows: list[TableRow] = []
    for label, result in results.items():
        scores = [result.sts.tasks.get(key) for key in TASKS]
        cells = [Cell(None) if one is None else Cell(one.by(correlation, aggregation), one.complete) for one in scores]
        rows.append([label, *cells, Cell(result.sts.mean_over_tasks(correlation, aggregation))])
    titles = [task.title for task in TASKS.values()]
    title = f"STS, {correlation.capitalize()} x 100, {aggregation}"
    return results_table(title, [MODEL], [*titles, "Avg."], rows, data="number of pairs")


def _by_subset(results: Mapping[str, StsResult], correlation: Correlation) -> Table:
    rows: list[TableRow] = []
    for key, task in TASKS.items():
        scores = [result.sts.tasks.get(key) for result in results.values()]
        for name in task.subsets if any(scores) else ():
            parts = [(score.complete, score.subsets.get(name)) if score else (True, None) for score in scores]
            sizes = sorted({part.n for _, part in parts if part is not None})
            cells = [Cell(None if part is None else part.by(correlation), complete) for complete, part in parts]
            rows.append([task.title, name, "/".join(f"{n:,}" for n in sizes) or ABSENT, *cells])
    title = f"STS by subset, {correlation.capitalize()} x 100"
    headers = ["Pairs", *results]
    return results_table(title, ["Task", "Subset"], headers, rows, data="number of pairs", grouped=True)


def length_table(results: Mapping[str, StsResult]) -> Table:
    """Lays out Spearman x 100 of pairs whose lengths differ by up to 3 words, and of the others (ESimCSE, Tables 1, 7).

    Args:
        results: by label, in the order to show.

    Returns:
        Two rows per model and one column per task (those that some result has), then the plain mean over the model's
        tasks; ``-`` where there is no value, and in the mean if any of the model's tasks has none. The first two
        rows are the numbers of pairs.
    """
    keys = [key for key in TASKS if any(key in result.sts.tasks for result in results.values())]
    sizes: dict[str, dict[str, set[int]]] = {half: {key: set() for key in keys} for half in HALVES}
    rows: list[TableRow] = []
    for label, result in results.items():
        splits = [result.sts.tasks[key].by_length if key in result.sts.tasks else None for key in keys]
        means = mean_by_length(result.sts) or (None, None)
        for number, half in enumerate(HALVES):
            scores = [None if split is None else (split.up_to_3, split.over_3)[number] for split in splits]
            for key, score in zip(keys, scores, strict=True):
                sizes[half][key] |= set() if score is None else {score.n}
            cells = [Cell(None if score is None else score.spearman) for score in scores]
            rows.append([label, half, *cells, Cell(means[number])])
    pairs: list[TableRow] = [
        ["pairs", half, *("/".join(f"{n:,}" for n in sorted(counts)) or ABSENT for counts in by_key.values()), ABSENT]
        for half, by_key in sizes.items()
    ]
    titles = [TASKS[key].title for key in keys]
    title = "STS by difference in length (words), Spearman x 100"
    return results_table(title, [MODEL, "Difference"], [*titles, "Avg."], pairs + rows, grouped=True)


def mean_by_length(scores: StsScores) -> tuple[float, float] | None:
    """Averages Spearman x 100 over the tasks: up to 3 words, over 3; None unless every task has both."""
    splits = [task.by_length for task in scores.tasks.values()]
    known = [split for split in splits if split is not None]
    if not known or len(known) != len(splits):
        return None
    return (
        sum(split.up_to_3.spearman for split in known) / len(known),
        sum(split.over_3.spearman for split in known) / len(known),
    )
