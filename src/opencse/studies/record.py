"""Records each run of a comparison: its scores, and everything that they depend on."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import AwareDatetime, Field, FiniteFloat

from opencse.environment import Environment, installed
from opencse.evaluation.record import DataRecord
from opencse.records import read_record, save_json
from opencse.runs.record import Outcome
from opencse.settings import Settings

RECORD = "record.json"
Which = Literal["kept", "last"]
"""The encoder that is evaluated: the one a run keeps (see `opencse.adapting.selection`), or that of its last step."""


class Contents(Settings):
    """Hashes of the content that a run depends on; see `opencse.runs.record.Identity`.

    Attributes:
        start: hash of each file of the start.
        text: hash of the text; None for an untrained start.
        dev_pairs: hash of the dev pairs; None without dev pairs, and for an untrained start.
        parts: hash of the code of each module of parts that are not the package's own; None in older records, and for
            an untrained start.
        models: hash of each file of the teachers and generators that the recipe names; None as for ``parts``.
    """

    start: dict[str, str]
    text: str | None = None
    dev_pairs: str | None = None
    parts: dict[str, str] | None = None
    models: dict[str, str] | None = None


class StudyRecord(Settings):
    """The record of one run, or of one untrained start (then ``recipe``, ``seed`` and all of training are None).

    Attributes:
        schema_version: changes when a key changes its meaning.
        opencse: this library's version.
        created: when it was finished, UTC.
        recipe: name with presets.
        start: the model that training began with.
        reading: how the start's vectors are read before training, for instance ``untrained, cls``; of a start, how it
            is evaluated.
        seed: seed of the run; where data order and dropout are seeded apart, the number of their pair of seeds.
        data_seed: of the data order, where it is seeded apart.
        dropout_seed: of dropout, where it is seeded apart.
        asked: everything that determines what the run does, including the resolved recipe.
        text: hash of the training text.
        contents: hashes of the other content that the run depends on; None in older records.
        outcome: the result of training; see `opencse.runs.record.Outcome`.
        judged: which encoder was evaluated.
        environment: versions, commit and machine.
        train_seconds: wall clock of training.
        judge_seconds: wall clock of the evaluation on all suites.
        results: every score in percent, by name (``sts.average``).
        data: the evaluation data, by suite.
    """

    schema_version: Literal[1] = 1
    opencse: str | None = Field(default_factory=lambda: installed("opencse"))
    created: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))
    recipe: str | None = None
    start: str
    reading: str | None = None
    seed: int | None = None
    data_seed: int | None = None
    dropout_seed: int | None = None
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
        save_json(folder / RECORD, self.model_dump(mode="json"))

    def keeps_start(self) -> bool:
        """Whether the encoder that was evaluated is the untrained start, which the run kept."""
        return self.judged == "kept" and self.outcome is not None and self.outcome.kept in ("start", "given")

    @classmethod
    def read(cls, folder: Path) -> StudyRecord | None:
        """The record in ``folder``; None while there is none.

        Raises:
            UserError: for a file that is not such a record.
        """
        path = folder / RECORD
        return read_record(cls, path) if path.is_file() else None
