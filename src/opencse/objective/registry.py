"""From a part's settings to the part: those of the package, those of installed packages, and any that can be imported.

A part is found by its ``kind``:

- ``in_batch``: a class of the package, in the folder of its role; writing the class is all it takes,
- a name that an installed package gives in the entry point group ``opencse.parts``,
- ``package.module:Class``: imported from there.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Literal, get_args

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler, SerializationInfo, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, core_schema

from opencse.errors import UserError, nearest, reason, shortened
from opencse.objective.interface import interface_fault
from opencse.objective.part import Part
from opencse.settings import PartSettings

GROUP = "opencse.parts"
Role = Literal["view", "sides", "negatives", "term"]
_BASES: Mapping[Role, str] = {
    "view": "opencse.objective.views.base:View",
    "sides": "opencse.objective.sides.base:Sides",
    "negatives": "opencse.objective.negatives.base:NegativeSource",
    "term": "opencse.objective.terms.base:Term",
}


@cache
def built_in(role: Role) -> Mapping[str, type[Part]]:
    """The package's own parts of a role, by kind."""
    base = _base(role)
    room = import_module(base.__module__.rpartition(".")[0])
    found: dict[str, type[Part]] = {}
    for module in pkgutil.iter_modules(room.__path__, f"{room.__name__}."):
        for value in vars(import_module(module.name)).values():
            own = isinstance(value, type) and value.__module__ == module.name
            if own and issubclass(value, base) and "Settings" in vars(value):
                found[_kind(value.Settings)] = value
    return dict(sorted(found.items()))


def find(role: Role, kind: str) -> type[Part]:
    """The part called ``kind``.

    Raises:
        UserError: if there is none, naming those there are, or if it is no part of this role.
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


_PLURAL: Mapping[Role, str] = {"view": "views", "sides": "sides", "negatives": "negatives", "term": "terms"}


def build(settings: PartSettings) -> Any:  # noqa: ANN401 - the part that the settings name
    """The part that ``settings`` name."""
    part = settings.part
    if part is None:
        raise TypeError(f"{type(settings).__qualname__} belongs to no part; define it inside the part's class")
    return part(settings)


@dataclass(frozen=True)
class PartOf:
    """Marks a field that holds the settings of any part of a role: ``Annotated[PartSettings, PartOf("view")]``."""

    role: Role

    def find(self, kind: str) -> type[BaseModel] | None:
        """The settings of ``kind``, for whoever looks for valid keys; None if there is no such part."""
        try:
            settings: type[BaseModel] = find(self.role, kind).Settings
        except UserError:
            return None
        return settings

    def validate(self, value: object) -> PartSettings:
        """Settings of a part of this role, made of plain values or taken as they are.

        Raises:
            ValueError: for a part that cannot be had; a ``ValidationError`` for wrong values in it.
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
        """Plain values from which `validate` makes the same settings."""
        plain = value.model_dump(mode=info.mode, exclude_none=info.exclude_none)
        part = value.part
        if part is not None and built_in(self.role).get(value.kind) is not part and not self._installed(value):
            plain["kind"] = f"{part.__module__}:{part.__qualname__}"
        return plain

    def _installed(self, value: PartSettings) -> bool:
        return any(_imported(point.value) is value.part for point in entry_points(group=GROUP, name=value.kind))

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """A check of its own, since parts that nobody has named yet are valid too."""
        return core_schema.no_info_plain_validator_function(
            self.validate, serialization=core_schema.plain_serializer_function_ser_schema(self.dump, info_arg=True)
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Any of the package's own parts, or one from elsewhere by its kind."""
        own = [part.Settings.model_json_schema() | {"required": ["kind"]} for part in built_in(self.role).values()]
        kind = {"type": "string", "not": {"enum": list(built_in(self.role))}}
        return {"anyOf": [*own, {"type": "object", "properties": {"kind": kind}, "required": ["kind"]}]}


def _base(role: Role) -> type[Part]:
    found = _imported(_BASES[role])
    assert isinstance(found, type)
    return found


def _imported(place: str) -> object:
    """``package.module:Class`` -> the class.

    Raises:
        UserError: if there is no such module, it cannot be imported, or has no such class.
    """
    module, _, name = place.partition(":")
    try:
        found: object = import_module(module)
    except Exception as error:  # whatever is wrong in somebody's module
        raise UserError(f"{shortened(place)}: {shortened(module)!r} cannot be imported ({reason(error)})") from None
    for step in name.split("."):
        if not hasattr(found, step):
            raise UserError(f"{shortened(place)}: the module {module} has no {shortened(name)!r}")
        found = getattr(found, step)
    return found


def _require(role: Role, kind: str, found: object) -> type[Part]:
    base = _base(role)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise UserError(f"{shortened(kind)} is none of the {_PLURAL[role]}: it does not derive from {base.__name__}")
    if "Settings" not in vars(found) or not get_args(found.Settings.model_fields["kind"].annotation):
        raise UserError(f'{shortened(kind)} has no Settings with a kind of its own: kind: Literal["..."] = "..."')
    fault = interface_fault(found, base)
    if fault is not None:
        raise UserError(f"{shortened(kind)} ({found.__module__}.{found.__qualname__}) {fault}")
    return found


def _kind(settings: type[PartSettings]) -> str:
    return str(settings.model_fields["kind"].default)
