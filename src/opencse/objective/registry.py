"""Finds the class of a part by its ``kind`` in a recipe.

A ``kind`` is one of these:

- ``in_batch``: a class of the package, in the folder of its role (the class needs no other registration),
- a name that an installed package gives in the entry point group ``opencse.parts``,
- ``package.module:Class``: imported from there; what is not installed is looked for in the working folder.
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from inspect import isabstract
from types import ModuleType
from typing import Any, Literal, get_args

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler, SerializationInfo, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, core_schema

from opencse.errors import UserError, explaining, nearest, shortened
from opencse.objective.part import Part
from opencse.settings import PartSettings

GROUP = "opencse.parts"
PartRole = Literal["view", "sides", "negatives", "term"]
_BASES: Mapping[PartRole, str] = {
    "view": "opencse.objective.views.base:View",
    "sides": "opencse.objective.sides.base:Sides",
    "negatives": "opencse.objective.negatives.base:NegativeSource",
    "term": "opencse.objective.terms.base:Term",
}


@cache
def built_in(role: PartRole) -> Mapping[str, type[Part]]:
    """The package's own parts of a role, by kind."""
    base = _base(role)
    package = import_module(base.__module__.rpartition(".")[0])
    parts: dict[str, type[Part]] = {}
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        for value in vars(import_module(module.name)).values():
            defined_in_module = isinstance(value, type) and value.__module__ == module.name
            if defined_in_module and issubclass(value, base) and "Settings" in vars(value) and not isabstract(value):
                parts[_kind(value.Settings)] = value
    return dict(sorted(parts.items()))


def find(role: PartRole, kind: str) -> type[Part]:
    """Finds the class of the part ``kind``.

    Raises:
        UserError: if there is none, with the list of all; or if it is not a part of this role.
    """
    parts = built_in(role)
    if kind in parts:
        return parts[kind]
    if ":" in kind:
        return _require(role, kind, _imported(kind))
    installed = entry_points(group=GROUP, name=kind)
    if installed:
        point = next(iter(installed))
        return _require(role, kind, _imported(point.value))
    near = nearest(kind, parts)
    raise UserError(f"no part {shortened(repr(kind))} among the {_PLURAL[role]}{near}; there are: {', '.join(parts)}")


_PLURAL: Mapping[PartRole, str] = {"view": "views", "sides": "sides", "negatives": "negatives", "term": "terms"}


def build(settings: PartSettings) -> Any:  # noqa: ANN401 - the part that the settings name
    """Makes the part of ``settings``."""
    return settings.part(settings)


@dataclass(frozen=True)
class PartOf:
    """Marks a field that holds the settings of any part of a role: ``Annotated[PartSettings, PartOf("view")]``."""

    role: PartRole

    def find(self, kind: str) -> type[BaseModel] | None:
        """The settings class of ``kind``, to look up valid keys; None if there is no such part."""
        try:
            settings: type[BaseModel] = find(self.role, kind).Settings
        except UserError:
            return None
        return settings

    def validate(self, value: object) -> PartSettings:
        """Makes the settings of a part of plain values; settings are returned as they are.

        Raises:
            ValueError: for a part that cannot be found; a ``ValidationError`` for wrong values in it.
        """
        if isinstance(value, PartSettings):
            if value.part is None or not issubclass(value.part, _base(self.role)):
                raise ValueError(f"{type(value).__qualname__} are not the settings of one of the {_PLURAL[self.role]}")
            return value
        if not isinstance(value, Mapping):
            raise ValueError('a part is a table with its kind: { kind = "..." }')
        kind = value.get("kind")
        if not isinstance(kind, str):
            raise ValueError(f"a part needs its kind; there are: {', '.join(built_in(self.role))}")
        try:
            settings: type[PartSettings] = find(self.role, kind).Settings
        except UserError as error:
            line = InitErrorDetails(
                type="value_error", loc=("kind",), input=kind, ctx={"error": ValueError(str(error))}
            )
            raise ValidationError.from_exception_data("part", [line]) from None
        try:
            return settings.model_validate({**value, "kind": _kind(settings)})
        except ValidationError as error:
            lines = [
                InitErrorDetails(type=e["type"], loc=(kind, *e["loc"]), input=e["input"], ctx=e.get("ctx", {}))
                for e in error.errors(include_url=False)
            ]
            raise ValidationError.from_exception_data(error.title, lines) from None

    def dump(self, value: PartSettings, info: SerializationInfo) -> dict[str, Any]:
        """Plain values of which `validate` makes the same settings."""
        plain = value.model_dump(mode=info.mode, exclude_none=info.exclude_none)
        part = value.part
        if part is not None and built_in(self.role).get(value.kind) is not part and not self._installed(value):
            plain["kind"] = f"{part.__module__}:{part.__qualname__}"
        return plain

    def _installed(self, value: PartSettings) -> bool:
        return any(_imported(point.value) is value.part for point in entry_points(group=GROUP, name=value.kind))

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Validates by `validate`, since parts of other packages are valid too."""
        return core_schema.no_info_plain_validator_function(
            self.validate, serialization=core_schema.plain_serializer_function_ser_schema(self.dump, info_arg=True)
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The schema of any part of the package, or of any other kind."""
        schemas = [_inlined(part.Settings) | {"required": ["kind"]} for part in built_in(self.role).values()]
        kind = {"type": "string", "not": {"enum": list(built_in(self.role))}}
        return {"anyOf": [*schemas, {"type": "object", "properties": {"kind": kind}, "required": ["kind"]}]}


def _inlined(settings: type[PartSettings]) -> JsonSchemaValue:
    """The schema of a part's settings, with the tables inside it in their places: references are to a whole recipe."""
    schema = settings.model_json_schema()
    definitions = schema.pop("$defs", {})

    def resolved(value: object) -> Any:  # noqa: ANN401 - any piece of a schema
        if isinstance(value, Mapping):
            name = str(value.get("$ref", "")).removeprefix("#/$defs/")
            others = {key: resolved(inside) for key, inside in value.items() if key != "$ref"}
            return others if "$ref" not in value else resolved(definitions[name]) | others
        return [resolved(inside) for inside in value] if isinstance(value, list) else value

    inlined: JsonSchemaValue = resolved(schema)
    return inlined


def _base(role: PartRole) -> type[Part]:
    base = _imported(_BASES[role])
    assert isinstance(base, type)
    return base


def _imported(reference: str) -> object:
    """Imports the class of ``package.module:Class``.

    Raises:
        UserError: if there is no such module, it cannot be imported, or has no such class.
    """
    module, _, name = reference.partition(":")
    with explaining(
        f"{shortened(reference)}: {shortened(module)!r} cannot be imported", Exception
    ):  # a user's module may raise anything
        value: object = _module(module)
    for step in name.split("."):
        if not hasattr(value, step):
            raise UserError(f"{shortened(reference)}: the module {module} has no {shortened(name)!r}")
        value = getattr(value, step)
    return value


def _module(name: str) -> ModuleType:
    """Imports a module that is installed, else one in the working folder."""
    before = list(sys.path)
    sys.path.append("")  # the working folder
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise
        raise ModuleNotFoundError("neither installed nor a file in the working folder") from None
    finally:
        sys.path[:] = before


def _require(role: PartRole, kind: str, part: object) -> type[Part]:
    """Returns ``part`` if it is a complete part of ``role``; else raises a ``UserError``."""
    base = _base(role)
    if not (isinstance(part, type) and issubclass(part, base)):
        raise UserError(f"{shortened(kind)} is none of the {_PLURAL[role]}: it does not derive from {base.__name__}")
    if "Settings" not in vars(part) or not get_args(part.Settings.model_fields["kind"].annotation):
        raise UserError(f'{shortened(kind)} has no Settings with a kind of its own: kind: Literal["..."] = "..."')
    if missing := sorted(getattr(part, "__abstractmethods__", ())):
        raise UserError(
            f"{shortened(kind)}: a {base.__name__} needs a method {missing[0]}; define it in {part.__qualname__}"
        )
    return part


def _kind(settings: type[PartSettings]) -> str:
    return str(settings.model_fields["kind"].default)
