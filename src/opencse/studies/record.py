"""What one run of a comparison leaves behind: everything needed to tell where its numbers come from."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import AwareDatetime, Field, FiniteFloat

from opencse.environment import Environment, installed
from opencse.evaluation.record import DataRecord
from opencse.records import read_record, write_json
from opencse.runs.record import Outcome
from opencse.settings import Settings

RECORD = "record.json"
Which = Literal["kept", "last"]
"""The encoder that is evaluated: the one a run keeps (see `opencse.adapting.selection`), or that of its last step."""


class Contents(Settings):
    """What runs are made of, by content; see `opencse.runs.record.Identity`.

    Attributes:
        start: hash of each file of the start.
        text: hash of the text; None of a start as it was given.
        dev_pairs: hash of the dev pairs; None without, and of a start as it was given.
    """

    start: dict[str, str]
    text: str | None = None
    dev_pairs: str | None = None


class StudyRecord(Settings):
    """One run, or one start untrained (then ``recipe``, ``seed`` and all of training are None).

    Attributes:
        schema_version: changes when a key changes its meaning.
        opencse: this library's version.
        created: when it was finished, UTC.
        recipe: name with presets.
        start: what training began with.
        reading: how the start's vectors are read before training, for instance ``untrained, cls``; of a start, how it
            is evaluated.
        seed: of the run.
        asked: everything that decides what the run does, the resolved recipe included.
        text: hash of the training text.
        contents: hashes of what else the run is made of; None in older records.
        outcome: what training ended with; see `opencse.runs.record.Outcome`.
        judged: which encoder the results are of.
        environment: versions, commit and machine.
        train_seconds: wall clock of training.
        judge_seconds: wall clock of the evaluation on all suites.
        results: every score in percent, by name (``sts.average``).
        data: what was evaluated on, by suite.
    """

    schema_version: Literal[1] = 1
    opencse: str | None = Field(default_factory=lambda: installed("opencse"))
    created: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))
    recipe: str | None = None
    start: str
    reading: str | None = None
    seed: int | None = None
    asked: dict[str, Any]
    text: str | None = None
    contents: Contents | None = None
    outcome: Outcome | None = None
    judged: Which
    environment: Environment
    train_seconds: FiniteFloat | None = None
    judge_seconds: FiniteFloat
    results: dict[str, FiniteFloat]
    data: dict[str, DataRecord]

    def write(self, folder: Path) -> None:
        """Writes ``record.json`` in full or not at all."""
        write_json(folder / RECORD, self.model_dump(mode="json"))

    def keeps_start(self) -> bool:
        """Whether what was evaluated of a run is its untrained start."""
        return self.judged == "kept" and self.outcome is not None and self.outcome.kept in ("start", "given")

    @classmethod
    def read(cls, folder: Path) -> StudyRecord | None:
        """The record in ``folder``; None while there is none.

        Raises:
            UserError: for a file that is not such a record.
        """
        path = folder / RECORD
        return read_record(cls, path) if path.is_file() else None
