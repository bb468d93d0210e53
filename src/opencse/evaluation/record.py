"""The record of an evaluation, as written to JSON: its scores, its data, and the versions it ran with.

Each suite derives its own record, with its scores under a key of its own (``sts``, ``dev``, ``sts_regressor``,
``transfer``, ``probing``, ``retrieval``). All scores are in percent or x 100.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import ClassVar, Literal

from pydantic import AwareDatetime, Field, FiniteFloat

from opencse.environment import Environment, installed
from opencse.records import JsonRecord
from opencse.settings import Settings

TextForm = Literal["prepared", "raw", "unknown"]
"""``prepared``: tokenised and (but for SICK) lower-cased, as the papers evaluate; ``raw``: as written."""


class DataRecord(Settings):
    """What a model was evaluated on.

    Attributes:
        source: folder, file or data set.
        text: its form.
        sha256: a hash of each task's content, by task.
    """

    source: str
    text: TextForm
    sha256: dict[str, str]


class SuiteScore(Settings, ABC):
    """The score of one task of a suite."""

    @abstractmethod
    def measures(self) -> dict[str, float]:
        """The measures in percent, by name; a task's main one, where it has one, has the empty name."""


class EvaluationRecord(JsonRecord):
    """The scores of a model on the tasks of one suite, and what is needed to repeat the evaluation.

    Attributes:
        schema_version: changes when a key changes its meaning.
        opencse: this library's version; None if it runs without being installed.
        created: when, UTC.
        model: folder or name of the model.
        pooling: how token vectors became one vector.
        data: what the model was evaluated on.
        environment: versions and machine.
        seconds: wall-clock time of encoding and scoring.
        code: classes of the model folder's own code that made the vectors (``--trust-remote-code``); None: none did.
        key: (of the class) the key of the scores, and the first part of their flat names.
    """

    key: ClassVar[str] = ""

    schema_version: Literal[1] = 1
    opencse: str | None = Field(default_factory=lambda: installed("opencse"))
    created: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))
    model: str | None = None
    pooling: str | None = None
    code: list[str] | None = None
    data: DataRecord
    environment: Environment
    seconds: FiniteFloat

    def scores(self) -> Mapping[str, SuiteScore]:
        """The scores by task; a record without a suite has none."""
        return {}

    def means(self) -> dict[str, float | None]:
        """The means over tasks by name; None for one that is not defined."""
        return {}

    def values(self) -> dict[str, float]:
        """The scores by flat name, in percent: ``sts.sts12``, ``transfer.mrpc.f1``, ``sts.average``."""
        flat = {
            ".".join(filter(None, (self.key, task, measure))): value
            for task, score in self.scores().items()
            for measure, value in score.measures().items()
        }
        return flat | {f"{self.key}.{name}": mean for name, mean in self.means().items() if mean is not None}
