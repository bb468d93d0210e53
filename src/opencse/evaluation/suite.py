"""The base class of all suites of tasks: how their data is read, scored, recorded and shown."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

from opencse.environment import Environment
from opencse.errors import UserError, nearest
from opencse.evaluation.embedding import Embedded, EmbeddingModel, distinct, embed
from opencse.evaluation.record import AVERAGE, DataRecord, EvaluationRecord, Score, TextForm
from opencse.numerals import number_of
from opencse.progress import SILENT, Say

if TYPE_CHECKING:
    from rich.table import Table


class Task(Protocol):
    """The data of one task, checked."""

    def texts(self) -> Iterable[Sequence[str]]:
        """Returns the groups of texts whose vectors are needed; a text may be in several."""

    def sha256(self) -> str:
        """Returns a hash of the content."""


T = TypeVar("T", bound=Task)  # one task's data


@dataclass(frozen=True)
class TaskData(Generic[T]):
    """The tasks of a suite, ready for evaluation.

    Attributes:
        source: where they come from, in words.
        text: the form of the text; a model scores differently on another one.
        tasks: by name, in the order of the published tables.
        absent: names of published tasks that were not found.
    """

    source: str
    text: TextForm
    tasks: dict[str, T]
    absent: tuple[str, ...] = ()

    @cached_property
    def record(self) -> DataRecord:
        """The source, form and content hashes of the tasks."""
        hashes = {name: task.sha256() for name, task in self.tasks.items()}
        return DataRecord(source=self.source, text=self.text, sha256=hashes)


@dataclass(frozen=True)
class Options:
    """The options of a suite.

    Attributes:
        tasks: names of tasks; None: all that are in the folder.
        fast: the fast classifier of SentEval where a classifier is trained (transfer, probing).
        logistic: transfer by scikit-learn's logistic regression instead of SentEval's classifier.
        apart: encode the texts of each task separately, instead of all tasks' texts at once.
        device: where classifiers and regressors are trained; the model's own for None.
        keep_identical_ids: retrieval: rank documents that are the query also where they are not judged relevant.
    """

    tasks: Sequence[str] | None = None
    fast: bool = False
    logistic: bool = False
    apart: bool = False
    device: str | None = None
    keep_identical_ids: bool = False


def chosen(
    tasks: Sequence[str] | None, there: Collection[str], kind: str, source: object, known: Collection[str] = ()
) -> list[str]:
    """The tasks that are requested, in the order of ``there``; all of them for None.

    Args:
        tasks: names.
        there: names of the tasks in the data.
        kind: of task, for messages.
        source: of the data, for messages.
        known: names of the published tasks, for the message where there is none.

    Raises:
        UserError: for no task at all, or one that is not there.
    """
    for name in tasks or ():
        if name not in there:
            listed = ", ".join(there) or "none"
            raise UserError(f"{source}: unknown {kind} {name!r}{nearest(name, [*known, *there])}; there are: {listed}")
    names = [name for name in there if tasks is None or name in tasks]
    if not names:
        raise UserError(
            f"{source}: no {kind} {'there' if tasks is None else 'chosen'}; known: {', '.join(known or there)}"
        )
    return names


class Suite(ABC, Generic[T]):
    """A suite of tasks, with its options as fields.

    Attributes:
        name: on the command line.
        title: in words.
        folder: of its tasks in a folder of suites.
        by_task: whether the texts of each task are always encoded separately, instead of all tasks' texts at once.
        device: where classifiers are trained; the model's own for None.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    folder: ClassVar[str]
    by_task: ClassVar[bool] = False
    device: str | None = None

    @classmethod
    def of(cls, options: Options) -> Self:
        """Makes the suite with these options; the ones it does not have are ignored."""
        del options
        return cls()

    @abstractmethod
    def load(self, folder: Path, tasks: Sequence[str] | None = None) -> TaskData[T]:
        """Reads the tasks of a folder (None: all in it); a fault in the data is a ``UserError``."""

    @abstractmethod
    def score(self, name: str, task: T, embedded: Embedded, device: str = "cpu") -> list[Score]:
        """Scores one task from the vectors of its texts; a classifier, if there is one, is trained on ``device``.

        The first score is the one that is reported, and has what the suite knows of the task in its ``extras``.
        """

    @abstractmethod
    def line(self, task: T, scores: Sequence[Score]) -> str:
        """Describes one task's scores for the console."""

    @classmethod
    @abstractmethod
    def table(cls, results: Mapping[str, EvaluationRecord]) -> Table:
        """Lays out records by label as a table."""

    def averages(self, scores: Mapping[str, list[Score]]) -> list[Score]:
        """The means over the tasks, from their scores by name."""
        return []

    def settings(self, scores: Mapping[str, list[Score]]) -> dict[str, Any]:
        """How the tasks were scored, for the record."""
        return {}

    @classmethod
    def key(cls) -> str:
        """The first part of the names of its scores."""
        return cls.name.replace("-", "_")

    def score_names(self, data: TaskData[T]) -> list[str]:
        """The names of the scores that these tasks will have, as `EvaluationRecord.values` has them."""
        return [f"{self.key()}.{task}" for task in data.tasks]

    def embed(self, model: EmbeddingModel, tasks: Iterable[T]) -> Embedded:
        """Encodes the distinct texts of some tasks."""
        return embed(model.encode, distinct(group for task in tasks for group in task.texts()))

    def check(self, data: TaskData[T]) -> None:
        """Raises a ``UserError`` for data that cannot be scored, before anything is encoded."""

    def mean(self, scores: Sequence[Score], published: int | None = None, task: str = AVERAGE) -> Score:
        """The mean of scores by one measure; ``published``: the number of tasks of published averages."""
        value = sum(one.value for one in scores) / len(scores)
        complete = None if published is None else len(scores) == published
        measure, n = scores[0].measure, len(scores)
        return Score(suite=self.name, task=task, measure=measure, value=value, n=n, complete=complete)

    def evaluate(
        self, model: EmbeddingModel, data: TaskData[T], progress: Say = SILENT.say, *, apart: bool = False
    ) -> EvaluationRecord:
        """Evaluates a model; a task's score does not depend on the other tasks.

        Args:
            model: its ``encode`` is called once on the distinct texts of all tasks, or once per task (``by_task``).
            data: the tasks, see ``load``.
            progress: called with one line at each step.
            apart: see `Options`.

        Raises:
            UserError: for data that cannot be scored, or a vector that holds NaN or infinite values.
            ValueError: if ``encode`` does not return an (n, d) array.
        """
        self.check(data)
        started = time.perf_counter()
        progress(f"{self.title}: {model.name} on {', '.join(data.tasks)} from {data.source}, text {data.text}")
        if data.absent:
            progress(f"{self.title}: {', '.join(data.absent)} not in {data.source}")
        shared = None if self.by_task or apart else self._embed(model, data.tasks.values(), self.title, progress)
        scores: dict[str, list[Score]] = {}
        for name, task in data.tasks.items():
            embedded = self._embed(model, [task], name, progress) if shared is None else shared
            scores[name] = self.score(name, task, embedded, self.device or model.device or "cpu")
            progress(self.line(task, scores[name]))
        return EvaluationRecord(
            model=model.name,
            pooling=model.pooling,
            code=list(model.code) or None,
            data=data.record,
            environment=Environment.here(model.device),
            seconds=time.perf_counter() - started,
            settings=self.settings(scores),
            scores=[*(one for several in scores.values() for one in several), *self.averages(scores)],
        )

    @classmethod
    def open(cls, folder: Path, options: Options) -> OpenSuite:
        """Loads the tasks of ``folder``.

        Raises:
            UserError: for a fault of the data, before anything is encoded.
        """
        suite = cls.of(options)
        return OpenSuite(suite, suite.load(folder, options.tasks), options.apart)

    def _embed(self, model: EmbeddingModel, tasks: Iterable[T], name: str, report: Say) -> Embedded:
        started = time.perf_counter()
        embedded = self.embed(model, tasks)
        report(f"{name}: {number_of(len(embedded), 'distinct text')} encoded in {time.perf_counter() - started:.1f} s")
        return embedded


@dataclass(frozen=True)
class OpenSuite:
    """A suite with its data, ready for models.

    Attributes:
        suite: how the tasks are scored.
        data: its tasks.
        apart: see `Options`.
    """

    suite: Suite[Any]
    data: TaskData[Any]
    apart: bool = False

    @property
    def score_names(self) -> list[str]:
        """See `Suite.score_names`."""
        return self.suite.score_names(self.data)

    def evaluate(self, model: EmbeddingModel, progress: Say = SILENT.say) -> EvaluationRecord:
        """See `Suite.evaluate`."""
        return self.suite.evaluate(model, self.data, progress, apart=self.apart)
