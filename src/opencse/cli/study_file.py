"""Reads a comparison from a TOML file, for ``opencse compare study.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BeforeValidator, Field, StrictBool, create_model

from opencse.commands.declared import Parameter, parameters_of
from opencse.commands.studies import compare, seeds_of
from opencse.errors import UserError, explaining
from opencse.recipes.overrides import as_overrides, as_toml, flatten
from opencse.settings import Settings, validate


def _seeds(value: object, name: str = "seeds") -> object:
    return seeds_of(value, name) if isinstance(value, str) else value


def _settings(value: object) -> object:
    """A table of settings as a list of ``key.path=value``."""
    if not isinstance(value, dict):
        return value
    return as_overrides(value)


def _grid(value: object) -> object:
    """A table of lists as a list of ``key.path=value,value``."""
    if not isinstance(value, dict):
        return value
    lists = {key: values if isinstance(values, list) else [values] for key, values in flatten(value).items()}
    return [f"{key}={','.join(as_toml(one, key) for one in values)}" for key, values in lists.items()]


_TABLES: dict[str, Callable[[Any], object]] = {"settings": _settings, "grid": _grid, "tune": _grid}
"""How the options that hold settings are read from the tables of a file."""


def _without(keys: set[str], entries: object) -> list[str] | None:
    """The ``entries`` of a study file whose key is not among ``keys``; None for what is no list of them."""
    if not isinstance(entries, list):
        return None
    return [entry for entry in entries if not isinstance(entry, str) or _key(entry) not in keys]


def _key(entry: str) -> str:
    """The dotted key of ``key.path=value``."""
    return entry.partition("=")[0].strip()


class StudyArguments(Settings):
    """The arguments that every comparison needs; paths are relative to the working folder, as on the command line.

    Attributes:
        text: what every run is trained on: a text file or Hub data set id.
        out: folder of the comparison.
        recipes: names, presets may follow, or TOML files.
        data: folder with ``sts/``, ``transfer/``, ... (or one suite's folder), or ``hub``.
    """

    text: str
    out: str
    recipes: tuple[str, ...]
    data: str

    def options(self) -> dict[str, Any]:
        """The arguments of `opencse.compare`, each with its value or its default."""
        return {name: getattr(self, name) for name in type(self).model_fields}


def _kind(kind: Any) -> Any:  # noqa: ANN401 - a type
    """The type by which pydantic checks an option: lists as tuples, and no words or numbers for true and false."""
    if kind is bool:
        return StrictBool
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return Union[tuple(_kind(one) for one in arguments)]  # noqa: UP007 - a type that is computed
    if isinstance(origin, type) and issubclass(origin, Iterable):
        return tuple[arguments[0], ...]  # type: ignore[valid-type]
    return kind


def _field(one: Parameter) -> Any:  # noqa: ANN401 - what pydantic makes a field of
    kind, readers = _kind(one.kind), dict(_TABLES)
    readers |= {name: partial(_seeds, name=name) for name in ("seeds", "data_seeds", "dropout_seeds", "tune_seeds")}
    reader = readers.get(one.name)
    checked = kind if reader is None else Annotated[kind, BeforeValidator(reader)]
    return checked, Field(default=one.inner.default, ge=one.how.least, le=one.how.most)


StudyFile = create_model(
    "StudyFile",
    __base__=StudyArguments,
    __doc__="The content of a study file: the arguments of `opencse.compare`.",
    **{
        name: _field(one)
        for name, one in parameters_of(compare).items()
        if name not in StudyArguments.model_fields and not one.how.hidden
    },
)


def read_study(path: Path, typed: dict[str, Any]) -> StudyArguments:
    """Reads a study file; options ``typed`` on the command line replace its values, but typed settings are added.

    A setting that is typed, in ``settings``, ``grid`` or ``tune``, takes the place of the file's in any of them.

    Raises:
        UserError: for a file that cannot be read, an unknown key or a wrong value, or if text, out, recipes or data
            are missing.
    """
    with explaining(
        f"{path}: cannot be read as a study", OSError, ValueError, RecursionError, fix="a TOML file is expected"
    ):
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    keys = {_key(entry) for name in _TABLES for entry in typed.get(name, ())}
    of_file = {name: _without(keys, read(values.get(name))) for name, read in _TABLES.items()}
    values |= {name: entries for name, entries in of_file.items() if entries is not None}
    if "settings" in typed and isinstance(values.get("settings"), list):
        typed = {**typed, "settings": [*values["settings"], *typed["settings"]]}
    return study_of({**values, **typed}, f"{path}: ")


def study_of(values: dict[str, Any], origin: str = "") -> StudyArguments:
    """Checks the values of a study.

    Args:
        values: arguments and options of `opencse.compare` by name.
        origin: where they come from, with which every message begins.

    Raises:
        UserError: for an unknown key or a wrong value, or if text, out, recipes or data are missing.
    """
    required = {"text": "TEXT", "out": "--out", "recipes": "--recipes", "data": "--data"}
    missing = [option for key, option in required.items() if not values.get(key)]
    if missing:
        names = " and ".join(", ".join(missing).rsplit(", ", 1))
        raise UserError(f"{origin}{names} missing; add it to the command, or name a study file that has it")
    return validate(StudyFile, values, origin.removesuffix(": ") or "compare")
