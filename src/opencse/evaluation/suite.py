"""What every suite of tasks has in common; a suite itself says how its data is read and scored, and shown."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

from opencse.arrays import Floats
from opencse.environment import Environment
from opencse.evaluation.embedding import Embedded, EmbeddingModel, Progress, distinct, embed, silent
from opencse.evaluation.record import DataRecord, EvaluationRecord, SuiteScore, Text

if TYPE_CHECKING:
    from rich.table import Table


class Task(Protocol):
    """The data of one task, checked."""

    def texts(self) -> Iterable[Sequence[str]]:
        """The groups of texts whose vectors are needed; a text may stand in several."""

    def sha256(self) -> str:
        """A hash of the content."""


T = TypeVar("T", bound=Task)  # one task's data
S = TypeVar("S", bound=SuiteScore)  # one task's score
R = TypeVar("R", bound=EvaluationRecord)


@dataclass(frozen=True)
class TaskData(Generic[T]):
    """Tasks ready to be evaluated on.

    Attributes:
        source: where they come from, in words.
        text: in which form the text is; a model scores differently on another one.
        tasks: by name, in the order of the published tables.
        absent: names of published tasks that were looked for and not found.
    """

    source: str
    text: Text
    tasks: dict[str, T]
    absent: tuple[str, ...] = ()

    @cached_property
    def record(self) -> DataRecord:
        """What it is, with a hash of each task's content."""
        hashes = {name: task.sha256() for name, task in self.tasks.items()}
        return DataRecord(source=self.source, text=self.text, sha256=hashes)


@dataclass(frozen=True)
class Evaluation(Generic[R]):
    """What a suite found of one model.

    Attributes:
        record: the scores and where they come from.
        arrays: what the scores were made of, pair by pair, by name, for tests over pairs; empty if nothing is kept.
    """

    record: R
    arrays: dict[str, Floats] = field(default_factory=dict)


@dataclass(frozen=True)
class Options:
    """What can be chosen about a suite.

    Attributes:
        tasks: some of its tasks; all (that are there) for None.
        fast: the fast classifier of SentEval where a classifier is trained (transfer, probing).
        logistic: transfer by scikit-learn's logistic regression instead of SentEval's classifier.
        apart: encode each task's texts by themselves, not those of all tasks at once, also where one call would do.
        device: where classifiers and regressors are trained; the model's own for None.
        keep_identical_ids: retrieval: rank documents with the query's own id also where they are not judged relevant.
    """

    tasks: Sequence[str] | None = None
    fast: bool = False
    logistic: bool = False
    apart: bool = False
    device: str | None = None
    keep_identical_ids: bool = False


class Suite(ABC, Generic[T, S, R]):
    """A suite of tasks, with what can be chosen about it as its fields.

    Attributes:
        name: on the command line, and the first part of its scores' names.
        title: in words.
        folder: of its tasks in a folder of suites.
        by_task: whether each task's texts are always encoded by themselves, and not those of all tasks at once.
        device: where classifiers are trained; the model's own for None.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    folder: ClassVar[str]
    by_task: ClassVar[bool] = False
    device: str | None = None

    @classmethod
    @abstractmethod
    def of(cls, options: Options) -> Self:
        """The suite with these options; those it does not know have no effect."""

    @abstractmethod
    def load(self, folder: Path, tasks: Sequence[str] | None = None) -> TaskData[T]:
        """The tasks of a folder, all that are there for None; a fault of the data is a ``UserError``."""

    @abstractmethod
    def score(self, task: T, embedded: Embedded, device: str = "cpu") -> S:
        """The scores of one task from the vectors of its texts; ``device`` trains a classifier, if there is one."""

    @abstractmethod
    def record(self, scores: dict[str, S], common: Mapping[str, Any]) -> R:
        """Makes the record of ``scores``; ``common`` are the fields that every record has."""

    @abstractmethod
    def line(self, task: T, score: S) -> str:
        """One task's score for the console."""

    @classmethod
    @abstractmethod
    def table(cls, results: Mapping[str, R]) -> Table:
        """Records by label as a table."""

    def embed(self, model: EmbeddingModel, tasks: Iterable[T]) -> Embedded:
        """The vectors of the distinct texts of some tasks."""
        return embed(model.encode, distinct(group for task in tasks for group in task.texts()))

    def check(self, data: TaskData[T]) -> None:
        """Refuses what cannot be scored before anything is encoded, by a ``UserError``."""

    def arrays(self, name: str, task: T, embedded: Embedded) -> dict[str, Floats]:
        """What is kept for tests over pairs, by name."""
        return {}

    def evaluate(
        self, model: EmbeddingModel, data: TaskData[T], progress: Progress | None = None, *, apart: bool = False
    ) -> Evaluation[R]:
        """Evaluates a model.

        Args:
            model: its ``encode`` is called once on the distinct texts of all tasks, or once a task (``by_task``).
            data: the tasks, see ``load``.
            progress: called with one line at each step.
            apart: see `Options`.

        Returns:
            The record, and the arrays kept; a task's score does not depend on which others are there.

        Raises:
            UserError: for data that cannot be scored, or a vector that holds NaN or infinite values.
            ValueError: if ``encode`` does not return an (n, d) array.
        """
        self.check(data)
        tell = progress or silent
        started = time.perf_counter()
        tell(f"{self.title}: {', '.join(data.tasks)} from {data.source}, text {data.text}")
        if data.absent:
            tell(f"{self.title}: {', '.join(data.absent)} not in {data.source}")
        everything = None if self.by_task or apart else self._embed(model, data.tasks.values(), self.title, tell)
        scores: dict[str, S] = {}
        arrays: dict[str, Floats] = {}
        for name, task in data.tasks.items():
            embedded = self._embed(model, [task], name, tell) if everything is None else everything
            scores[name] = self.score(task, embedded, self.device or model.device or "cpu")
            arrays |= self.arrays(name, task, embedded)
            tell(self.line(task, scores[name]))
        common = {
            "model": model.name,
            "pooling": model.pooling,
            "code": list(model.code) or None,
            "data": data.record,
            "environment": Environment.here(model.device),
            "seconds": time.perf_counter() - started,
        }
        return Evaluation(self.record(scores, common), arrays)

    @classmethod
    def open(cls, folder: Path, options: Options) -> OpenSuite[R]:
        """Loads the tasks of ``folder``.

        Raises:
            UserError: for a fault of the data, before anything is encoded.
        """
        suite = cls.of(options)
        return OpenSuite(suite, suite.load(folder, options.tasks), options.apart)

    def _embed(self, model: EmbeddingModel, tasks: Iterable[T], name: str, tell: Progress) -> Embedded:
        started = time.perf_counter()
        embedded = self.embed(model, tasks)
        tell(f"{name}: {len(embedded):,} distinct texts encoded in {time.perf_counter() - started:.1f} s")
        return embedded


@dataclass(frozen=True)
class OpenSuite(Generic[R]):
    """A suite with its data, ready for models.

    Attributes:
        suite: how it is scored.
        data: its tasks.
        apart: see `Options`.
    """

    suite: Suite[Any, Any, R]
    data: TaskData[Any]
    apart: bool = False

    def evaluate(self, model: EmbeddingModel, progress: Progress | None = None) -> Evaluation[R]:
        """See `Suite.evaluate`."""
        return self.suite.evaluate(model, self.data, progress, apart=self.apart)
