"""STS: does the cosine of two sentences rank pairs as people rank their similarity?

Protocol of SimCSE (Gao et al. 2021, appendix B), which later papers share: no truncation by evaluation, cosine
of the sentence vectors, Spearman's correlation with the gold scores; for the years 2012 to 2016 over the
concatenation of the subsets (``all``), in addition to ``mean`` and ``wmean``; the average is over seven tasks.
"""

from __future__ import annotations

import hashlib
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from pydantic import FiniteFloat, model_serializer, model_validator

from opencse.arrays import Floats
from opencse.errors import UserError, nearest, require_known
from opencse.evaluation.embedding import Embedded
from opencse.evaluation.pairs import (
    COLUMNS,
    GradedRow,
    ScoredPairs,
    read_scored_pairs,
    scored_pairs,
)
from opencse.evaluation.record import EvaluationRecord, SuiteScore, TextForm
from opencse.evaluation.suite import Options, Suite, TaskData
from opencse.evaluation.table import ABSENT, MODEL, Cell, TableRow, results_table
from opencse.files import require_folder
from opencse.numerals import number_of
from opencse.settings import Settings
from opencse.statistics.correlation import pearson, spearman
from opencse.text.files.data_sets import load_data_set
from opencse.text.files.formats import choose_columns

if TYPE_CHECKING:
    from rich.table import Table

SPLIT = "test"
HUB = "hub"


@dataclass(frozen=True)
class StsTask:
    """One STS task as published.

    Attributes:
        key: name in results and folders, for instance ``sts12``.
        title: name in tables, for instance ``STS12``.
        pairs: the published number of test pairs.
        subsets: names of its files, in published order; ``("test",)`` for a task of one file.
        hub: name of the data set in the Hub's ``mteb`` space.
        lower_cased: whether the text the papers evaluate is lower-cased.
    """

    key: str
    title: str
    pairs: int
    subsets: tuple[str, ...]
    hub: str
    lower_cased: bool = True


TASKS: dict[str, StsTask] = {
    task.key: task
    for task in (
        StsTask(
            "sts12",
            "STS12",
            3108,
            ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
            "sts12-sts",
        ),
        StsTask("sts13", "STS13", 1500, ("FNWN", "headlines", "OnWN"), "sts13-sts"),
        StsTask(
            "sts14",
            "STS14",
            3750,
            ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
            "sts14-sts",
        ),
        StsTask(
            "sts15",
            "STS15",
            3000,
            ("answers-forums", "answers-students", "belief", "headlines", "images"),
            "sts15-sts",
        ),
        StsTask(
            "sts16",
            "STS16",
            1186,
            ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
            "sts16-sts",
        ),
        StsTask("stsb", "STS-B", 1379, (SPLIT,), "stsbenchmark-sts"),
        StsTask("sickr", "SICK-R", 4927, (SPLIT,), "sickr-sts", lower_cased=False),
    )
}
"""The seven tasks in the order of every published table; STS13 is without its SMT subset, as published."""


@dataclass(frozen=True)
class TaskPairs:
    """The pairs of one STS task.

    Attributes:
        task: what is published about it.
        parts: its subsets in published order, or one part with all pairs where the source does not separate subsets.
    """

    task: StsTask
    parts: tuple[ScoredPairs, ...]

    @property
    def n(self) -> int:
        """The number of pairs."""
        return sum(len(part) for part in self.parts)

    @property
    def gold(self) -> Floats:
        """The gold scores (n,) of all parts, one after another."""
        return np.concatenate([part.scores for part in self.parts])

    @property
    def complete(self) -> bool:
        """Whether the number of pairs is the published one; if not, published scores do not compare."""
        return self.n == self.task.pairs

    @property
    def has_subsets(self) -> bool:
        """Whether the parts are the published subsets (true for a task of one file)."""
        return len(self.parts) == len(self.task.subsets)

    def texts(self) -> Iterator[list[str]]:
        """Yields both sides of each part."""
        for part in self.parts:
            yield from (part.first, part.second)

    def sha256(self) -> str:
        """Returns a hash of the ``score<TAB>sentence1<TAB>sentence2`` lines, the same from any kind of file."""
        digest = hashlib.sha256()
        for part in self.parts:
            for score, one, two in zip(part.scores.tolist(), part.first, part.second, strict=True):
                digest.update(f"{score!r}\t{one}\t{two}\n".encode())
        return digest.hexdigest()


StsData = TaskData[TaskPairs]


def choose_tasks(keys: Sequence[str] | None) -> list[StsTask]:
    """Returns the tasks of these keys in the order of ``TASKS``; all seven for None.

    Raises:
        UserError: for no key at all or one that is unknown.
    """
    if keys is None:
        return list(TASKS.values())
    for key in keys:
        if key not in TASKS:
            raise UserError(f"unknown STS task {key!r}{nearest(key, TASKS)}; tasks: {', '.join(TASKS)}")
    if not keys:
        raise UserError(f"no STS task chosen; tasks: {', '.join(TASKS)}")
    return [task for key, task in TASKS.items() if key in keys]


def load_sts(folder: Path, tasks: Sequence[str] | None = None) -> StsData:
    """Reads the tasks of a local folder: ``<task>/<subset>.tsv`` for each name in ``TASKS[task].subsets``.

    The text is used as written. It is called ``prepared`` if no letter of STS12 to STS-B is a capital, as
    in the papers' data, else ``raw`` (``unknown`` if none of these tasks is read). Other files, such as
    ``stsb/dev.tsv``, are ignored.

    Args:
        folder: holds one folder per task.
        tasks: keys of ``TASKS``; all seven for None.

    Raises:
        UserError: naming the first missing file and the files in its folder, or a fault in a file's line.
    """
    folder = Path(folder)
    require_folder(folder, f"give a folder that holds {', '.join(TASKS)}; --data hub downloads them")
    loaded: dict[str, TaskPairs] = {}
    for task in choose_tasks(tasks):
        files = [folder / task.key / f"{subset}.tsv" for subset in task.subsets]
        for file in files:
            if not file.is_file():
                raise UserError(_missing(folder, task, file))
        loaded[task.key] = TaskPairs(task, tuple(read_scored_pairs(file) for file in files))
    return StsData(str(folder), text_form(loaded), loaded)


def _missing(folder: Path, task: StsTask, file: Path) -> str:
    task_folder = folder / task.key
    if not task_folder.is_dir():
        entries = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
        known = [key for key in TASKS if key in entries]
        if inner := next((name for name in entries if (folder / name / task.key).is_dir()), None):
            return f"{file}: missing; {folder / inner} holds {task.key}: give that folder"
        return (
            f"{file}: missing; folders in {folder}: {', '.join(entries) or 'none'}; "
            f"add {task.key}, or choose tasks without it (--tasks {','.join(known) or 'stsb'})"
        )
    entries = sorted(entry.name for entry in task_folder.iterdir())
    expected = ", ".join(f"{subset}.tsv" for subset in task.subsets)
    return f"{file}: missing; found in {task_folder}: {', '.join(entries) or 'nothing'}; {task.title} needs {expected}"


def text_form(loaded: Mapping[str, TaskPairs]) -> TextForm:
    """Recognises whether the texts are as published or as the papers prepared them; see `load_sts`."""
    lower_cased = [pairs for pairs in loaded.values() if pairs.task.lower_cased]
    if not lower_cased:
        return "unknown"
    characters = set[str]().union(*(text for pairs in lower_cased for side in pairs.texts() for text in side))
    return "raw" if any(character.isupper() for character in characters) else "prepared"


def load_sts_hub(tasks: Sequence[str] | None = None, *, root: str | Path = "mteb") -> StsData:
    """Loads the tasks from the Hub: split ``test``, columns ``score``, ``sentence1``, ``sentence2``.

    The text there is raw (original casing, not tokenised) and the years' subsets are not separated, so
    ``mean`` and ``wmean`` of STS12 to STS16 stay empty. SICK-R there holds train, dev and test in one (9,927
    pairs instead of 4,927) and is marked as not complete: prefer the papers' data in a folder.

    Args:
        tasks: keys of ``TASKS``; all seven for None.
        root: the Hub space, or a local folder that holds ``sts12-sts`` and so on as `datasets` can load them.

    Raises:
        UserError: if a data set cannot be loaded, lacks a column, or a row is at fault.
    """
    loaded: dict[str, TaskPairs] = {}
    for task in choose_tasks(tasks):
        name = f"{root}/{task.hub}"
        dataset = load_data_set(name, SPLIT, "without a network, give a local folder of STS files")
        choose_columns(COLUMNS, dataset.column_names, name)
        pairs = scored_pairs(name, _rows(dataset, name), name=SPLIT)
        loaded[task.key] = TaskPairs(task, (pairs,))
    return StsData(f"{root}/*-sts, split {SPLIT}", "raw", loaded)


def _rows(dataset: Any, name: str) -> Iterator[GradedRow]:  # noqa: ANN401 - `datasets` is untyped
    for number, row in enumerate(dataset.select_columns(list(COLUMNS)), start=1):
        yield f"{name}, row {number}", [row[column] for column in COLUMNS]


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


HALVES = ("up to 3", "over 3")


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


SAME_LENGTH = 3
"""Words of difference up to which ESimCSE counts two sentences as of similar length."""


@dataclass(frozen=True)
class Sts(Suite[TaskPairs, TaskScore, StsResult]):
    """Scores every task and subset by Spearman's and Pearson's correlation, x 100.

    The arrays for tests over pairs are ``<task>.cosine`` and ``<task>.gold``, (n,), one subset after another.

    Example:
        >>> from opencse.evaluation import TASKS, EmbeddingModel, ScoredPairs, StsData, TaskPairs
        >>> from opencse.evaluation.models.words import BagOfWords
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

    def score_names(self, data: StsData) -> list[str]:
        """See ``Suite``."""
        return [*super().score_names(data), *(["sts.average"] if TASKS.keys() <= data.tasks.keys() else [])]

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
