"""What an evaluation found, with everything needed to tell where the number comes from."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pydantic import AwareDatetime, Field, FiniteFloat, model_serializer, model_validator

from opencse import io
from opencse.errors import UserError
from opencse.settings import Settings, validate

Aggregation = Literal["all", "mean", "wmean"]
Correlation = Literal["spearman", "pearson"]
TASKS_IN_AVERAGE = 7


class Environment(Settings):
    """Versions and machine; None for what is not installed or not known.

    Attributes:
        commit: of this library, where it runs from a checkout; ``+`` follows if files differ from it.
    """

    python: str
    torch: str | None
    transformers: str | None
    numpy: str | None
    scipy: str | None
    platform: str
    cpu_count: int | None
    device: str | None
    commit: str | None = None

    @classmethod
    def here(cls, device: str | None = None) -> Environment:
        """This process's environment; ``device`` is what the model ran on, for instance ``cpu``."""
        return cls(
            python=platform.python_version(),
            torch=installed("torch"),
            transformers=installed("transformers"),
            numpy=installed("numpy"),
            scipy=installed("scipy"),
            platform=platform.platform(),
            cpu_count=os.cpu_count(),
            device=device,
            commit=commit(),
        )


@cache
def commit() -> str | None:
    """The commit of the checkout that this library runs from, with ``+`` if files differ from it; None outside one."""
    package = Path(__file__).resolve().parents[1]
    if package.parent.name != "src" or not (package.parents[1] / ".git").exists():
        return None
    try:
        told = [
            subprocess.run(["git", "-C", str(package), *arguments], capture_output=True, text=True, check=True).stdout
            for arguments in (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "--", "."])
        ]
    except (OSError, subprocess.CalledProcessError):
        return None  # no git, or a checkout of somebody else's
    return told[0].strip() + ("+" if told[1].strip() else "")


def installed(package: str) -> str | None:
    """The installed version of a package, read without importing it; None if there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


class DataRecord(Settings):
    """What was evaluated on.

    Attributes:
        source: folder, file or data set.
        text: ``prepared`` (tokenised and lower-cased as the papers evaluate), ``raw``, or ``unknown``.
        sha256: a hash of each task's content, by task.
    """

    source: str
    text: Literal["prepared", "raw", "unknown"]
    sha256: dict[str, str]


class Score(Settings):
    """Both correlations of one set of n pairs, each x 100."""

    spearman: FiniteFloat
    pearson: FiniteFloat
    n: int


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


class EvaluationRecord(Settings):
    """What every evaluation's result records beside its scores.

    Attributes:
        schema_version: changes when a key changes its meaning.
        opencse: this library's version; None if it runs without being installed.
        created: when, UTC.
        model: folder or name of the model judged.
        pooling: how its token vectors became one.
        data: what it was judged on.
        environment: versions and machine.
        seconds: wall clock of encoding and scoring.
        code: the classes of the model folder's own that made the vectors (``--trust-remote-code``); None: none did.
    """

    schema_version: Literal[1] = 1
    opencse: str | None = Field(default_factory=lambda: installed("opencse"))
    created: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))
    model: str | None = None
    pooling: str | None = None
    code: list[str] | None = None
    data: DataRecord
    environment: Environment
    seconds: FiniteFloat

    def values(self) -> dict[str, float]:
        """The scores under flat names (``sts.sts12``), all in percent; a record alone has none."""
        return {}

    def with_code(self, code: Sequence[str]) -> Self:
        """This record, naming the classes of the model folder's own that made the vectors."""
        return self.model_copy(update={"code": list(code) or None})

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return self.model_dump(mode="json")

    def write_json(self, path: Path) -> None:
        """Writes the result; see ``write_json``."""
        write_json(path, self.to_dict())

    @classmethod
    def read_json(cls, path: Path) -> Self:
        """The result in a file written by ``write_json``.

        Raises:
            UserError: for a file that is missing, not JSON, or not such a result.
        """
        return read_record(cls, Path(path))


class StsResult(EvaluationRecord):
    """An STS evaluation: ``sts.<task>.spearman.all`` and so on, and ``sts.average``."""

    sts: StsScores

    def values(self) -> dict[str, float]:
        """Spearman ``all`` x 100: ``sts.<task>``, and ``sts.average`` if all seven tasks are there."""
        flat = {f"sts.{key}": task.spearman.all for key, task in self.sts.tasks.items()}
        return flat if self.sts.average is None else {**flat, "sts.average": self.sts.average}


R = TypeVar("R", bound=Settings)


def read_record(cls: type[R], path: Path) -> R:
    """The ``cls`` in a file written by ``write_json``.

    Raises:
        UserError: for a file that is missing, not JSON, or not such a record.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as a result ({error})") from None
    if not isinstance(data, dict):
        raise UserError(f"{path}: a result is a JSON object, this is {type(data).__name__}")
    return validate(cls, data, str(path))


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Writes ``data`` to ``path``; see ``write_text``."""
    write_text(path, json.dumps(data, indent=2, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Writes ``text`` to ``path`` in full or not at all: to a file beside it, then put in its place.

    Folders on the way are made; a link stays, and the file it leads to is replaced.

    Raises:
        UserError: if the place cannot be written, is no regular file (a folder, a device), or the disk is
            full; what was there before stays.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            raise UserError(f"{path}: cannot be written (is not a regular file); give the path of a file")
        target.parent.mkdir(parents=True, exist_ok=True)
        io.write_text(target, text)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be written ({error.strerror}); give a path in a folder you may write to, with space left"
        ) from None
