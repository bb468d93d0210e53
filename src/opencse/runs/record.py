"""run.json, the record of a run: its settings, start, text and outcome."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from opencse import files
from opencse.environment import Environment
from opencse.errors import UserError, explaining, reason
from opencse.recipes.recipe import other_setting
from opencse.text.corpus import CorpusFacts
from opencse.training.selection import DevScore, OwnPoolingScore
from opencse.version import __version__


def now() -> datetime:
    """The current time in UTC, to the second."""
    return datetime.now(UTC).replace(microsecond=0)


class _Extensible(BaseModel):
    """A part of the record that preserves keys which a later version added."""

    model_config = ConfigDict(extra="allow", validate_assignment=True, arbitrary_types_allowed=True)


class Contents(_Extensible):
    """Hashes of the content that a run depends on; of an untrained start, of its files alone.

    Attributes:
        start: of each file of the start.
        text: of the text and of how it is read.
        dev_pairs: of the dev data; None without.
        parts: of the code of each module of parts that are not the package's own.
        models: of each file of the teachers and generators that the recipe names.
    """

    start: dict[str, str] | None = None
    text: str | None = None
    dev_pairs: str | None = None
    parts: dict[str, str] | None = None
    models: dict[str, str] | None = None


class Identity(Contents):
    """The values that must be equal for a run to be resumed; of files, their content and not their location.

    Attributes:
        recipe: every setting.
        model: the start as the user named it.
        precision: arithmetic of the forward pass.
        dev: the name of the dev data; None without.
        code: the code of the start's folder that is run; None without.
    """

    recipe: dict[str, Any]
    model: str
    text: str
    precision: str
    dev: str | None
    code: list[str] | None = None

    def difference(self, now: Identity) -> str | None:
        """The first difference from ``now``, in words; None if it is the same run."""
        if other := other_setting(self.recipe, now.recipe):
            return str(other._replace(key=f"recipe.{other.key}"))
        if self.precision != now.precision:
            return f"another precision ({self.precision!r} then, {now.precision!r} now)"
        if self.code != now.code:
            return f"other code of the model's folder ({self.code!r} then, {now.code!r} now)"
        if modules := changed_files(self.parts, now.parts):
            return f"other code of the recipe's parts: {modules} changed after the run was begun"
        if files := changed_files(self.models, now.models):
            return f"another model that the recipe names: {files} changed after the run was begun"
        if self.text != now.text:
            return "another text: its content, which columns and lines are read, or what --dev holds out has changed"
        return self._other_start(now) or self._other_dev(now)

    def _other_start(self, now: Identity) -> str | None:
        if files := changed_files(self.start, now.start):
            where = f"{now.model}" if self.model == now.model else f"{self.model!r} then, {now.model!r} now"
            return f"another start ({where}): these files have changed: {files}"
        return None

    def _other_dev(self, now: Identity) -> str | None:
        if self.dev is None or now.dev is None:
            return None if self.dev == now.dev else f"another dev ({self.dev!r} then, {now.dev!r} now)"
        if self.dev_pairs != now.dev_pairs:
            where = f"{now.dev}" if self.dev == now.dev else f"{self.dev!r} then, {now.dev!r} now"
            return f"other dev data ({where}): its content has changed, or how its answers are scored"
        return None


def changed_files(before: dict[str, str] | None, after: dict[str, str] | None) -> str:
    """The names of files or modules with another hash; empty if there are none, or no hashes."""
    if before is None or after is None:
        return ""
    return ", ".join(sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name)))


class Outcome(_Extensible):
    """How a run ended; see `opencse.runs.finish.TrainResult`.

    Attributes:
        kept: which encoder.
        verdict: why.
        scores: dev scores by step.
        steps: that were trained; fewer than the run's where it was finished early, or by patience.
        settled: whether ``training.patience`` ended the run, which is complete then.
        step: of the kept encoder, 0 for the start; None for the model as it was given.
    """

    kept: str
    verdict: str
    scores: dict[int, float]
    steps: int
    step: int | None = None
    settled: bool = False

    @property
    def score(self) -> float | None:
        """The dev score of the kept encoder; None where it was not evaluated."""
        return None if self.step is None else self.scores.get(self.step)


class RunRecord(_Extensible):
    """The record of a run.

    Attributes:
        schema_version: changes when a key changes its meaning.
        opencse: the version that began the run.
        started: when it was begun.
        identity: what makes it this run.
        source: the name of the text, for the user.
        corpus: counts of the text.
        steps: of the whole run.
        examples: in an epoch.
        environment: versions and machine.
        start: dev score of the start, once it is known.
        given: dev score of the start with its own pooling, where training uses another.
        measure: name of the dev score; None without.
        seconds: of training, by the process that finished it.
        result: how it ended; None until then.
        finished: when.
    """

    schema_version: Literal[1] = 1
    opencse: str = __version__
    started: AwareDatetime = Field(default_factory=now)
    identity: Identity
    source: str
    corpus: CorpusFacts
    steps: int
    examples: int | None = None
    environment: Environment
    start: DevScore | None = None
    given: OwnPoolingScore | None = None
    measure: str | None = None
    seconds: FiniteFloat | None = None
    result: Outcome | None = None
    finished: AwareDatetime | None = None

    @property
    def ended_early(self) -> bool:
        """Whether the run was finished (``opencse finish``) before its last step, so that it can be continued."""
        return self.result is not None and self.result.steps < self.steps and not self.result.settled

    @classmethod
    def read(cls, path: Path) -> RunRecord:
        """Reads the record in a file.

        Raises:
            UserError: for a file that is no such record.
        """
        try:
            return cls.model_validate(json.loads(path.read_text(encoding="utf-8")))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            why = f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}".removeprefix(": ")
        except (OSError, ValueError, RecursionError) as error:
            why = reason(error)
        raise UserError(
            f"{path}: cannot be read as the record of a run ({why}); put back a copy of it, or choose another --out"
        )

    def write(self, path: Path) -> None:
        """Writes the record in full or not at all.

        Raises:
            UserError: if it cannot be written; an older record stays.
        """
        with explaining(f"{path}: cannot be written", OSError, fix="make room and continue with --resume"):
            values = self.model_dump(mode="json", exclude={"start": {"cosines"}})
            files.write_json(path, values)
