"""A study as a TOML file: one file a table, run by ``opencse compare study.toml``."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StrictBool

from opencse.engines.choice import Engine
from opencse.errors import UserError, reason, shortened
from opencse.evaluation.models.opening import Precision
from opencse.numerals import whole_number
from opencse.recipes.overrides import flatten
from opencse.settings import Settings, validate

_MOST_SEEDS = 10_000


def seeds_of(text: str, name: str = "--seeds") -> list[int]:
    """``42,43,44`` or ``42-46`` as numbers; ``name`` is what a message calls them.

    Raises:
        UserError: for anything else.
    """
    seeds: list[int] = []
    for part in (part.strip() for part in text.split(",")):
        first, dash, last = part.partition("-")
        begin, end = whole_number(first), whole_number(last if dash else first)
        if part and (begin is None or end is None or end < begin):
            raise UserError(f"{name}: {shortened(part)!r} is neither a number nor a range such as 42-46")
        if begin is not None and end is not None:
            if end - begin >= _MOST_SEEDS:
                raise UserError(f"{name}: {part!r} is more than {_MOST_SEEDS:,} seeds")
            seeds += range(begin, end + 1)
    return seeds


def _seeds(given: object) -> object:
    return seeds_of(given, "seeds") if isinstance(given, str) else given


def _settings(given: object) -> object:
    """A table of settings as ``key.path=value`` each."""
    if not isinstance(given, dict):
        return given
    return [f"{key}={json.dumps(value, default=str)}" for key, value in flatten(given).items()]


class StudyFile(Settings):
    """What `opencse.compare` is asked for; paths as on the command line, from the working folder.

    Attributes:
        text: what every run is trained on: a text file or Hub data set id.
        out: folder of the comparison.
        recipes: names, presets may follow, or TOML files.
        data: folder with ``sts/``, ``transfer/``, ... (or one suite's own folder), or ``hub``.
        starts: folders, Hub ids, ``opencse-mini``.
        seeds: a list, or text such as ``42-46``.
        suites: what is scored: ``sts``, ``transfer``, ...
        fast: transfer tasks with SentEval's fast classifier.
        baseline: the recipe that the others are compared with; the first one.
        metric: what is compared; ``sts.average`` where it is there.
        dev: graded pairs to select on: a file, ``sample`` or ``none``.
        kept: score the encoder that a run keeps, not its last step's.
        columns: of the text.
        settings: of every run, as a table or as ``key.path=value`` each.
        resamples: bootstrap samples of the sentence pairs; 0: none.
        workers: runs at a time; one, or with ``ray`` one for each GPU or core of the cluster.
        engine: ``local``, or ``ray``.
        precision: arithmetic of evaluation: ``float32``, or ``bf16``, faster where the processor has it.
        device: where to run; a GPU if there is one.
        trust_remote_code: run the Python code that the starts' folders bring.
    """

    text: str
    out: str
    recipes: tuple[str, ...]
    data: str
    starts: tuple[str, ...] = ("opencse-mini",)
    seeds: Annotated[tuple[int, ...], BeforeValidator(_seeds)] = (42, 43, 44, 45, 46)
    suites: tuple[str, ...] = ("sts",)
    fast: bool = False
    baseline: str | None = None
    metric: str | None = None
    dev: str = "sample"
    kept: bool = False
    columns: tuple[str, ...] | None = None
    settings: Annotated[tuple[str, ...], BeforeValidator(_settings)] = ()
    resamples: int = Field(default=1_000, ge=0)
    workers: int | None = Field(default=None, ge=1)
    engine: Engine = "local"
    precision: Precision = "float32"
    device: str | None = None
    trust_remote_code: StrictBool = False


def read_study(path: Path, given: dict[str, Any]) -> StudyFile:
    """The study in a file, with what was ``given`` beside it in place of the file's own; settings are added to its.

    Raises:
        UserError: for a file that cannot be read, an unknown key or a wrong value, or if text, out, recipes or data
            are named nowhere.
    """
    try:
        asked = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: cannot be read as a study ({reason(error)}); a TOML file is expected") from None
    if "settings" in given and isinstance(own := _settings(asked.get("settings")), list):
        given = {**given, "settings": [*own, *given["settings"]]}
    return study_of({**asked, **given}, f"{path}: ")


def study_of(asked: dict[str, Any], where: str = "") -> StudyFile:
    """The study with these values; ``where`` they came from begins every message.

    Raises:
        UserError: for an unknown key or a wrong value, or if text, out, recipes or data are missing.
    """
    named = {"text": "TEXT", "out": "--out", "recipes": "--recipes", "data": "--data"}
    missing = [option for key, option in named.items() if not asked.get(key)]
    if missing:
        listed = " and ".join(", ".join(missing).rsplit(", ", 1))
        raise UserError(f"{where}{listed} missing; give what is compared, or a study file that names it")
    return validate(StudyFile, asked, where.removesuffix(": ") or "compare")
