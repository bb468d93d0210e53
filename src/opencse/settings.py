"""The base of every settings class; describes their errors in plain words."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Protocol, TypeVar, runtime_checkable

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from opencse.errors import UserError, nearest, shortened
from opencse.home import in_home

S = TypeVar("S", bound="Settings")
Location = Annotated[str, Field(min_length=1), AfterValidator(in_home)]
"""A file, a folder, or the name of a model or data set; ``~`` at its beginning is the home folder."""
OF_A_MODEL = "of a model"
ModelLocation = Annotated[Location, OF_A_MODEL]
"""The location of a model that a part reads and that does not begin a run: a teacher, a generator."""

AboveZero = Annotated[float, Field(gt=0)]
FromZero = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(gt=0, lt=1)]
Rate = Annotated[float, Field(ge=0, lt=1)]
Cosine = Annotated[float, Field(ge=-1, le=1)]


class Settings(BaseModel):
    """Immutable, strict about unknown keys; every part's settings derive from it.

    Floats are finite unless a field says otherwise.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)


class PartSettings(Settings):
    """Settings of a part (view, negative source, term); ``kind`` names the part in a recipe.

    Attributes:
        part: the class that these settings belong to, where they are nested in one.
    """

    kind: str
    part: ClassVar[Any] = None


def nested_settings(value: object) -> Iterator[BaseModel]:
    """``value`` and all settings within it, also in lists.

    Example:
        >>> from opencse.objective.settings import ObjectiveSettings
        >>> len(list(nested_settings(ObjectiveSettings()))) > 3
        True
    """
    inside: Iterable[object] = value if isinstance(value, tuple | list) else ()
    if isinstance(value, BaseModel):
        yield value
        inside = [getattr(value, name) for name in type(value).model_fields]
    for one in inside:
        yield from nested_settings(one)


@runtime_checkable
class OpenChoice(Protocol):
    """Marks a field that takes the settings of any part of an open set, distinguished by their ``kind``."""

    def find(self, kind: str) -> type[BaseModel] | None:
        """The settings of ``kind``; None if there is no such part."""


_OF_A_UNION = ("constrained-int", "constrained-float")
"""Names that pydantic adds to the location of a fault for a number that may also be a word, such as ``auto``."""


def validate(cls: type[S], data: Mapping[str, Any], where: str) -> S:
    """Makes a ``cls`` of ``data``; a `UserError` names the first wrong key, its location and the nearest valid one.

    Args:
        cls: the settings class.
        data: plain values, as read from TOML.
        where: the source of the values, for the message (a file or recipe name).
    """
    try:
        return cls.model_validate(dict(data))
    except ValidationError as error:
        errors = error.errors(include_url=False)
        first = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
        raise UserError(f"{where}: {described(cls, first)}") from None


def described(cls: type[BaseModel], error: ErrorDetails) -> str:
    """Describes a fault that pydantic found in data for ``cls`` in one line: key, fault, and value."""
    path = [shortened(str(part)) for part in error["loc"] if part not in _OF_A_UNION]
    if error["type"] == "extra_forbidden":
        siblings = _keys_at(cls, path[:-1])
        known = f"; valid: {', '.join(sorted(siblings))}" if siblings else ""
        return f"unknown key {'.'.join(path)!r}{nearest(path[-1], siblings)}{known}"
    clause = "" if isinstance(error["input"], dict | list) else f", got {_value_text(error['input'])}"
    location = f"{'.'.join(path)}: " if path else ""
    message = error["msg"].removeprefix("Value error, ")
    return f"{location}{message[0].lower()}{message[1:]}{clause}"


def _value_text(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 320:
        return f"a number of {value.bit_length():,} bits"  # Python writes no number of more than 4,300 digits
    return shortened(repr(value))


def _keys_at(cls: type[BaseModel], path: list[str]) -> set[str]:
    """The valid keys of the settings class found by following ``path`` (field names, indices, union tags)."""
    classes: list[type[BaseModel]] = [cls]
    choices: list[OpenChoice] = []
    for step in path:
        fields = [c.model_fields[step] for c in classes if step in c.model_fields]
        following = [model for field in fields for model in _models_in(field.annotation)]
        of_kind = [model for model in (choice.find(step) for choice in choices) if model is not None]
        tagged = [c for c in classes if _tag(c) == step]
        opened = [choice for field in fields for choice in _choices_in((*field.metadata, field.annotation))]
        classes = following or of_kind or tagged or ([] if opened else classes)
        choices = opened or choices
    return {key for candidate in classes for key in candidate.model_fields}


def _tag(cls: type[BaseModel]) -> str | None:
    field = cls.model_fields.get("kind")
    return None if field is None else str(field.default)


def _choices_in(annotations: Iterable[Any]) -> Iterator[OpenChoice]:
    for annotation in annotations:
        if isinstance(annotation, OpenChoice) and not isinstance(annotation, type | str):
            yield annotation
        yield from _choices_in(typing.get_args(annotation))


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:  # noqa: ANN401 - annotations are untyped objects
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models_in(argument)
