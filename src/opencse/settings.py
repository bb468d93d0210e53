"""The base of every settings class, and its errors in plain words."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from opencse.errors import UserError, nearest

S = TypeVar("S", bound="Settings")


class Settings(BaseModel):
    """Immutable, strict about unknown keys; every part's settings derive from it."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


class PartSettings(Settings):
    """Settings of a part (view, negative source, term); ``kind`` names the part in a recipe."""

    kind: str


def validate(cls: type[S], data: Mapping[str, Any], where: str) -> S:
    """``data`` as a ``cls``, or a ``UserError`` naming the first wrong key, its place and the nearest valid one.

    Args:
        cls: the settings class.
        data: plain values, as read from TOML.
        where: what the values came from, for the message (a file or recipe name).
    """
    try:
        return cls.model_validate(dict(data))
    except ValidationError as error:
        raise UserError(f"{where}: {_first_line(cls, error)}") from None


def _first_line(cls: type[Settings], error: ValidationError) -> str:
    errors = error.errors(include_url=False)
    first = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
    path = [str(part) for part in first["loc"]]
    if first["type"] == "extra_forbidden":
        siblings = _keys_at(cls, path[:-1])
        known = f"; valid: {', '.join(sorted(siblings))}" if siblings else ""
        return f"unknown key {'.'.join(path)!r}{nearest(path[-1], siblings)}{known}"
    got = "" if isinstance(first["input"], dict | list) else f", got {first['input']!r}"
    place = f"{'.'.join(path)}: " if path else ""
    return f"{place}{first['msg'][0].lower()}{first['msg'][1:]}{got}"


def _keys_at(cls: type[BaseModel], path: list[str]) -> set[str]:
    """The valid keys of the settings class found by following ``path`` (field names, indices, union tags)."""
    classes: list[type[BaseModel]] = [cls]
    for step in path:
        following: list[type[BaseModel]] = []
        for candidate in classes:
            field = candidate.model_fields.get(step)
            if field is not None:
                following.extend(_models_in(field.annotation))
        tagged = [c for c in classes if _tag(c) == step]
        if following:
            classes = following
        elif tagged:
            classes = tagged
    return {key for candidate in classes for key in candidate.model_fields}


def _tag(cls: type[BaseModel]) -> str | None:
    field = cls.model_fields.get("kind")
    return None if field is None else str(field.default)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:  # noqa: ANN401 - annotations are untyped objects
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models_in(argument)
