"""What every evaluation records beside its scores: where a number comes from."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from pydantic import AwareDatetime, Field, FiniteFloat

from opencse.environment import Environment, installed
from opencse.records import Record
from opencse.settings import Settings

Text = Literal["prepared", "raw", "unknown"]
"""``prepared``: tokenised and (but for SICK) lower-cased, as the papers evaluate; ``raw``: as written."""


class DataRecord(Settings):
    """What was evaluated on.

    Attributes:
        source: folder, file or data set.
        text: its form.
        sha256: a hash of each task's content, by task.
    """

    source: str
    text: Text
    sha256: dict[str, str]


class EvaluationRecord(Record):
    """What every evaluation's result records beside its scores.

    Attributes:
        schema_version: changes when a key changes its meaning.
        opencse: this library's version; None if it runs without being installed.
        created: when, UTC.
        model: folder or name of the model.
        pooling: how its token vectors became one.
        data: what it was evaluated on.
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
