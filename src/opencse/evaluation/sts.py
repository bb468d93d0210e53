"""STS: does the cosine of two sentences rank pairs as people rank their similarity?

Protocol of SimCSE (Gao et al. 2021, appendix B), which later papers share: no truncation by evaluation, cosine
of the sentence vectors, Spearman's correlation with the gold scores; for the years 2012 to 2016 over the
concatenation of the subsets (``all``), in addition to ``mean`` and ``wmean``; the average is over seven tasks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from opencse.arrays import Floats
from opencse.errors import UserError
from opencse.evaluation.embedding import Embedded
from opencse.evaluation.pairs import (
    COLUMNS,
    GradedRow,
    ScoredPairs,
    read_scored_pairs,
    scored_pairs,
)
from opencse.evaluation.record import AVERAGE, EvaluationRecord, Score, TextForm
from opencse.evaluation.suite import Suite, TaskData, chosen
from opencse.evaluation.table import ABSENT, MODEL, Cell, TableRow, results_table, scores_table
from opencse.files import require_folder
from opencse.numerals import number_of
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
    def counts(self) -> dict[str, int]:
        """The number of pairs by part."""
        return {part.name: len(part) for part in self.parts}

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
    for task in map(TASKS.__getitem__, chosen(tasks, TASKS, "STS task", folder)):
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
    for task in map(TASKS.__getitem__, chosen(tasks, TASKS, "STS task", root)):
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
CORRELATIONS = {"spearman": spearman, "pearson": pearson}
HALVES = {"up to 3": "spearman.up_to_3", "over 3": "spearman.over_3"}
SAME_LENGTH = 3
"""Words of difference up to which ESimCSE counts two sentences as of similar length."""


class Sts(Suite[TaskPairs]):
    """Scores every task and subset by Spearman's and Pearson's correlation, x 100; see `score_pairs`.

    The arrays for tests over pairs are ``<task>.cosine`` and ``<task>.gold``, (n,), one subset after another.

    Example:
        >>> from opencse.evaluation import TASKS, EmbeddingModel, ScoredPairs, StsData, TaskPairs
        >>> from opencse.evaluation.models.words import BagOfWords
        >>> pairs = ScoredPairs("test", np.array([0.0, 5.0, 3.0]), ["red", "a cat", "a cat"], ["cat", "a cat", "a dog"])
        >>> data = StsData("three pairs", "unknown", {"stsb": TaskPairs(TASKS["stsb"], (pairs,))})
        >>> record = Sts().evaluate(EmbeddingModel("bag of words", BagOfWords().encode), data)
        >>> {name: round(value, 2) for name, value in record.values().items()}
        {'sts.stsb': 100.0}
    """

    name = "sts"
    title = "STS"
    folder = "sts"

    def load(self, folder: Path, tasks: Sequence[str] | None = None) -> StsData:
        """See ``load_sts``; ``hub`` instead of a folder: ``load_sts_hub``."""
        return load_sts_hub(tasks) if str(folder) == HUB else load_sts(folder, tasks)

    def score_names(self, data: StsData) -> list[str]:
        """See ``Suite``."""
        return [*super().score_names(data), *(["sts.average"] if TASKS.keys() <= data.tasks.keys() else [])]

    def score(self, name: str, task: TaskPairs, embedded: Embedded, device: str = "cpu") -> list[Score]:
        """See ``score_pairs``."""
        del device
        cosines = [embedded.cosines(part.first, part.second) for part in task.parts]
        return score_pairs(task, cosines, self.name, name)

    def averages(self, scores: Mapping[str, list[Score]]) -> list[Score]:
        """Plain means over the seven tasks; none unless all seven have the value.

        SimCSE's script rounds each task to two decimals first, so its Avg. may differ by up to 0.01.
        """
        by_measure: dict[str, list[Score]] = {}
        for one in (one for several in scores.values() for one in several):
            if one.measure.rpartition(".")[2] in (*CORRELATIONS, "mean", "wmean"):
                by_measure.setdefault(one.measure, []).append(one)
        return [self.mean(several, len(TASKS)) for several in by_measure.values() if len(several) == len(TASKS)]

    def line(self, task: TaskPairs, scores: Sequence[Score]) -> str:
        """See ``Suite``."""
        line = f"{task.task.title}: Spearman {scores[0].value:.2f} over {number_of(scores[0].n, 'pair')}"
        if not task.complete:
            line += f" (published: of {task.task.pairs:,} pairs, so this does not compare with published values)"
        return line

    @classmethod
    def table(cls, results: Mapping[str, EvaluationRecord]) -> Table:
        """See ``sts_table``."""
        return sts_table(results)


class StsDev(Sts):
    """Scores the development pairs of STS Benchmark, by which the papers select models and report their ablations.

    Where the same pairs also selected the model, as in those papers, the value is too high.
    """

    name = "dev"
    title = "STS-B dev"
    task: ClassVar = StsTask("stsb", "STS-B dev", 1500, ("dev",), "stsbenchmark-sts")

    def load(self, folder: Path, tasks: Sequence[str] | None = None) -> StsData:
        """``stsb/dev.tsv`` of a local folder of STS data.

        Raises:
            UserError: for a file that is missing or at fault, or another task.
        """
        only = self.task.key
        chosen(tasks, [only], "task of the dev suite", folder)
        file = Path(folder) / only / "dev.tsv"
        if not file.is_file():
            raise UserError(f"{file}: missing; the dev suite reads the development pairs of STS Benchmark there")
        loaded = {only: TaskPairs(self.task, (read_scored_pairs(file),))}
        return StsData(str(folder), text_form(loaded), loaded)

    @classmethod
    def table(cls, results: Mapping[str, EvaluationRecord]) -> Table:
        """Lays out correlations x 100, one row per model; ``*`` marks another number of pairs than published."""
        columns = [(one.capitalize(), cls.task.key, one) for one in CORRELATIONS]
        return scores_table("STS-B dev, correlations x 100", results, columns, data="number of pairs")


def score_pairs(pairs: TaskPairs, cosines: Sequence[Floats], suite: str, task: str) -> list[Score]:
    r"""Scores one task over its subsets :math:`S_1 \dots S_K`, :math:`|S_k| = n_k` (SimCSE, app. B).

    .. math:: \text{all} = \rho\Big(\bigcup_k S_k\Big), \quad
              \text{mean} = \frac1K \sum_k \rho(S_k), \quad
              \text{wmean} = \frac{\sum_k n_k\, \rho(S_k)}{\sum_k n_k}

    These are the measures ``spearman``, ``spearman.mean`` and ``spearman.wmean``, and each subset's is called after it;
    likewise of Pearson. A task of one file has one value for the three; where the source does not separate subsets,
    there is only the first.

    Spearman's is also taken over the pairs of similar length and over the others, as ``spearman.up_to_3`` and
    ``spearman.over_3`` (ESimCSE, section 1 and Tables 1, 7), unless one is undefined: fewer than 2 pairs, or equal gold
    scores.

    .. math:: \rho\big(\{i : d_i \le 3\}\big), \quad \rho\big(\{i : d_i > 3\}\big), \quad
              d_i = \big|\,|x_i| - |y_i|\,\big|

    :math:`|x|` counts words between white space (the paper does not say what it counts). A task's subsets are
    taken together.
    """
    scores: list[Score] = []
    all_cosines, gold = np.concatenate(cosines), pairs.gold

    def add(measure: str, value: float, n: int, **arrays: Floats) -> None:
        complete = pairs.complete
        scores.append(
            Score(suite=suite, task=task, measure=measure, value=value, n=n, complete=complete, arrays=arrays)
        )

    for measure, correlation in CORRELATIONS.items():
        overall = 100 * correlation(all_cosines, gold)
        arrays = {} if scores else {"gold": gold, "cosine": all_cosines}
        add(measure, overall, len(gold), **arrays)
        if not pairs.has_subsets:
            continue
        sizes = [len(part) for part in pairs.parts]
        values, wmean = [overall], overall
        if len(sizes) > 1:
            values = [100 * correlation(c, part.scores) for part, c in zip(pairs.parts, cosines, strict=True)]
            wmean = float(np.average(values, weights=np.asarray(sizes, float)))
        add(f"{measure}.mean", float(np.mean(values)), len(gold))
        add(f"{measure}.wmean", wmean, len(gold))
        for part, value in zip(pairs.parts, values, strict=True):
            add(f"{measure}.{part.name}", value, len(part))
    sides = (both for part in pairs.parts for both in zip(part.first, part.second, strict=True))
    near = np.array([abs(len(one.split()) - len(two.split())) <= SAME_LENGTH for one, two in sides], dtype=bool)
    if all(len(np.unique(gold[half])) > 1 for half in (near, ~near)):
        for measure, half in zip(HALVES.values(), (near, ~near), strict=True):
            add(measure, 100 * spearman(all_cosines[half], gold[half]), int(half.sum()))
    return scores


def sts_table(
    results: Mapping[str, EvaluationRecord],
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
    """
    if subsets:
        return _by_subset(results, correlation)
    measure = correlation if aggregation == "all" else f"{correlation}.{aggregation}"
    columns = [(task.title, task.key, measure) for task in TASKS.values()]
    title = f"STS, {correlation.capitalize()} x 100, {aggregation}"
    return scores_table(title, results, [*columns, ("Avg.", AVERAGE, measure)], data="number of pairs")


def _by_subset(results: Mapping[str, EvaluationRecord], correlation: Correlation) -> Table:
    rows: list[TableRow] = []
    for key, task in TASKS.items():
        for name in task.subsets if any(key in record.tasks for record in results.values()) else ():
            measure = f"{correlation}.{name}"
            cells = [Cell.of(record, key, measure) for record in results.values()]
            rows.append([task.title, name, _sizes(results, key, measure), *cells])
    title = f"STS by subset, {correlation.capitalize()} x 100"
    headers = ["Pairs", *results]
    return results_table(title, ["Task", "Subset"], headers, rows, data="number of pairs", grouped=True)


def _sizes(results: Mapping[str, EvaluationRecord], task: str, measure: str) -> str:
    """The numbers of pairs that a score is over, each once."""
    found = (record.find(task, measure) for record in results.values())
    return "/".join(f"{n:,}" for n in sorted({one.n for one in found if one is not None})) or ABSENT


def length_table(results: Mapping[str, EvaluationRecord]) -> Table:
    """Lays out Spearman x 100 of pairs whose lengths differ by up to 3 words, and of the others (ESimCSE, Tables 1, 7).

    Args:
        results: by label, in the order to show.

    Returns:
        Two rows per model and one column per task (those that some result has), then the plain mean over the model's
        tasks; ``-`` where there is no value, and in the mean if any of the model's tasks has none. The first two
        rows are the numbers of pairs.
    """
    keys = [key for key in TASKS if any(key in record.tasks for record in results.values())]
    rows: list[TableRow] = [
        ["pairs", half, *(_sizes(results, key, measure) for key in keys), ABSENT] for half, measure in HALVES.items()
    ]
    for label, record in results.items():
        for half, measure in HALVES.items():
            values = {one.task: one.value for one in record.scores if one.measure == measure}
            mean = sum(values.values()) / len(values) if len(values) == len(record.tasks) else None
            rows.append([label, half, *(Cell(values.get(key)) for key in keys), Cell(mean)])
    titles = [TASKS[key].title for key in keys]
    title = "STS by difference in length (words), Spearman x 100"
    return results_table(title, [MODEL, "Difference"], [*titles, "Avg."], rows, grouped=True)
