"""Finds the class of a part by its ``kind`` in a recipe.

A ``kind`` is one of these:

- ``in_batch``: a class of the package, in the folder of its role (the class needs no other registration),
- a name that an installed package gives in the entry point group ``opencse.parts``,
- ``package.module:Class``: imported from there; what is not installed is looked for in the working folder.
"""

from __future__ import annotations

import inspect
import pkgutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any, Literal, get_args

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler, SerializationInfo, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, core_schema

from opencse.errors import UserError, nearest, reason, shortened
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
            if defined_in_module and issubclass(value, base) and "Settings" in vars(value):
                parts[_kind(value.Settings)] = value
    return dict(sorted(parts.items()))


def find(role: PartRole, kind: str) -> type[Part]:
    """Finds the class of the part ``kind``.

    Raises:
        UserError: if there is none, with the list of all; or if it is no part of this role.
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
    part = settings.part
    if part is None:
        raise TypeError(f"{type(settings).__qualname__} belongs to no part; define it inside the part's class")
    return part(settings)


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
    try:
        value: object = _module(module)
    except Exception as error:  # a user's module may raise anything
        raise UserError(f"{shortened(reference)}: {shortened(module)!r} cannot be imported ({reason(error)})") from None
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
    fault = interface_fault(part, base)
    if fault is None and role == "term":
        fault = weight_fault(part, base)
    if fault is not None:
        raise UserError(f"{shortened(kind)} ({part.__module__}.{part.__qualname__}) {fault}")
    return part


def _kind(settings: type[PartSettings]) -> str:
    return str(settings.model_fields["kind"].default)


def interface_fault(part: type[Part], base: type[Part]) -> str | None:
    """Describes the first method or attribute of a role that a part's class lacks, in one clause; None if it has all.

    A method may give its positional arguments other names, and have more of them with defaults. Only static attributes
    are read; nothing is called.

    Example:
        >>> from opencse.objective.terms.base import Term
        >>> class Empty(Term): ...
        >>> interface_fault(Empty, Term)
        'has no method loss; a Term needs loss(self, reps)'
    """
    for name in sorted(name for name in dir(base) if not name.startswith("_")):
        expected = inspect.getattr_static(base, name)
        actual = inspect.getattr_static(part, name)
        if actual is expected:
            if name in getattr(part, "__abstractmethods__", ()):
                member = "property" if isinstance(expected, property) else "method"
                return f"has no {member} {name}; a {base.__name__} needs {_signature(name, expected)}"
            continue
        if isinstance(expected, property):
            if inspect.isfunction(actual):
                return f"has {name} as a method; put @property above it"
        elif inspect.isfunction(expected) and not _takes(actual, expected):
            difference = (
                f"{_signature(name, actual)} was found"
                if inspect.isfunction(actual)
                else f"it is of type {type(actual).__name__}"
            )
            signature = _signature(name, expected)
            return f"has another method {name} than a {base.__name__}: {signature} is expected, {difference}"
    return None


def weight_fault(part: type[Part], base: type[Part]) -> str | None:
    """Describes in one clause that the settings of a term lack its weight; None if they have it.

    Example:
        >>> from opencse.objective.terms.base import Term
        >>> from opencse.objective.terms.dimensions import DCL
        >>> weight_fault(DCL, Term) is None
        True

    Args:
        part: the class of the term.
        base: the class of all terms.
    """
    computed = inspect.getattr_static(part, "weight", None) is not inspect.getattr_static(base, "weight", None)
    if computed or "weight" in part.Settings.model_fields:
        return None
    return "has no weight in its Settings, which multiplies its loss; add one: weight: float = 1.0"


def _takes(actual: object, expected: object) -> bool:
    """Whether ``actual`` can be called with the arguments of ``expected``."""
    if not inspect.isfunction(actual) or not inspect.isfunction(expected):
        return False
    parameters = inspect.signature(expected).parameters.values()
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    keywords = {one.name: None for one in parameters if one.kind is one.KEYWORD_ONLY}
    try:
        inspect.signature(actual).bind(*positional, **keywords)
    except TypeError:
        return False
    return True


def _signature(name: str, method: object) -> str:
    """A method's name and arguments, without their types."""
    if not inspect.isfunction(method):
        return name
    signature = inspect.signature(method)
    bare = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    return f"{name}{signature.replace(parameters=bare, return_annotation=signature.empty)}"
