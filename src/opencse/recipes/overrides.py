"""Changes to a tree of settings by dotted keys: parsed, applied whatever their order, blamed when they are wrong."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from opencse.errors import UserError, shortened
from opencse.numerals import whole_number


@dataclass(frozen=True)
class Change:
    """One setting to replace.

    Attributes:
        where: who asks for it, as it is to be named in an error (``--set training.epochs=2``, ``simcse:crop-10``).
        key: dotted; in a list of parts a step is a part's kind, or the position in the list:
            ``objective.negatives.in_batch.weight``; of two parts of a kind the second is ``in_batch#2``. A whole part
            of a kind that the list does not have is added at its end: ``objective.terms.dcl={ kind = "dcl" }``.
        value: plain, as read from TOML; whole lists and tables too.
    """

    where: str
    key: str
    value: object

    @property
    def path(self) -> list[str]:
        """The steps of the key."""
        return self.key.split(".")


def parse_override(override: str) -> tuple[str, Any]:
    """``key.path=value`` -> the key and the value, read as TOML; a bare word is a string."""
    key, sign, text = override.partition("=")
    if not sign or not key.strip():
        raise UserError(f"--set {override}: key.path=value is expected, for instance training.learning_rate=1e-4")
    try:
        return key.strip(), tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # no TOML, or a number or a nesting beyond what Python reads
        return key.strip(), text.strip()


def changes_of(settings: Mapping[str, object], where: str) -> list[Change]:
    """Dotted keys and values as changes that may be applied one after the other.

    Wholes come before their parts and a ``kind`` before the other settings of its part, so that the order in which
    they were written means nothing; of two changes of one key the later stands.
    """
    return in_order(Change(where, key, value) for key, value in settings.items())


def in_order(changes: Iterable[Change]) -> list[Change]:
    """Wholes before parts, a ``kind`` before its part's other settings; otherwise as given."""
    return sorted(changes, key=lambda change: (len(change.path), change.path[-1] != "kind"))


def changed(data: Mapping[str, Any], changes: Iterable[Change]) -> dict[str, Any]:
    """A copy of ``data`` with ``changes`` applied one after the other.

    Raises:
        UserError: for a key that leads nowhere, naming the change.
    """
    tree = copy.deepcopy(dict(data))
    for change in changes:
        _set(tree, change)
    return tree


def _set(tree: dict[str, Any], change: Change) -> None:
    node: Any = tree
    *path, last = change.path
    for step in path:
        node = _child(node, step, change)
    value = copy.deepcopy(change.value)
    if isinstance(node, list):
        if isinstance(value, dict) and value.get("kind") == last and last not in _names(node):
            node.append(value)  # a part of a kind that was not there
        else:
            node[_index(node, last, change)] = value
    elif isinstance(node, dict):
        if last == "kind" and node.get("kind") != value:
            node.clear()  # another part has other settings
        node[last] = value
    else:
        raise UserError(f"{change.where}: {path[-1]} is a plain value, it has no settings inside")


def _child(node: Any, step: str, change: Change) -> Any:  # noqa: ANN401 - a TOML tree
    if isinstance(node, list):
        return node[_index(node, step, change)]
    if isinstance(node, dict):
        if node.get(step) is None:  # a table that is unset
            node[step] = {}
        return node[step]
    raise UserError(f"{change.where}: {step!r} is inside a plain value")


def _index(node: list[Any], step: str, change: Change) -> int:
    names = _names(node)
    if step in names:
        return names.index(step)
    place = whole_number(step)
    if place is None or place >= len(node):
        there = f"; there are: {', '.join(names)}" if names else ""
        raise UserError(f"{change.where}: {shortened(step)!r} is not a position in a list of {len(node)}{there}")
    return place


def _names(parts: list[Any]) -> list[str]:
    """What the parts of a list are called in keys; none if it is no list of parts."""
    kinds = [str(item["kind"]) for item in parts if isinstance(item, dict) and "kind" in item]
    kinds = [kind.rpartition(":")[2] for kind in kinds]  # package.module:Class is called Class
    if len(kinds) < len(parts):
        return []
    return [kind if (n := kinds[: i + 1].count(kind)) == 1 else f"{kind}#{n}" for i, kind in enumerate(kinds)]


def blame(
    cls: type[BaseModel],
    changes: Sequence[Change],
    build: Callable[[Sequence[Change]], dict[str, Any]],
    given: Sequence[Change] = (),
) -> tuple[str, ErrorDetails]:
    """Who is at fault where ``build(changes)`` is no valid ``cls``, and what the fault is.

    At fault is the change whose value the error lies in; or, where the error is about a whole (two settings that do
    not go together), every change without which it would not be there. Of several errors it is the one whose change
    was given first that is told.

    Args:
        cls: the settings class.
        changes: at least one, in the order in which they are applied.
        build: the tree of settings with some changes applied.
        given: the changes in the order in which they were asked for; as they are applied, by default.

    Returns:
        the ``where`` of the change, or several joined by "and"; and the error.
    """
    order = list(given or changes)
    found = [(_at_fault(cls, changes, build, error), error) for error in _errors(cls, build, changes)]
    guilty, told = min(found, key=lambda one: min(order.index(change) for change in one[0]))
    return " and ".join(dict.fromkeys(change.where for change in guilty)), told


def _at_fault(
    cls: type[BaseModel],
    changes: Sequence[Change],
    build: Callable[[Sequence[Change]], dict[str, Any]],
    error: ErrorDetails,
) -> list[Change]:
    place = [str(step) for step in error["loc"]]
    tree = build(changes)
    inside = [change for change in changes if _leads_to(_placed(tree, change.path), place)]
    if inside:
        return inside[-1:]
    around = [change for change in changes if _leads_to(place, _placed(tree, change.path))] or list(changes)
    before = {_key(each) for each in _errors(cls, build, changes)}
    guilty = []
    for change in around:
        try:
            after = {_key(each) for each in _errors(cls, build, [other for other in changes if other is not change])}
        except UserError:  # another change leads nowhere without this one
            continue
        if after <= before - {_key(error)}:
            guilty.append(change)
    return guilty or around[:1]


def _key(error: ErrorDetails) -> tuple[object, ...]:
    return error["loc"], error["type"], error["msg"]


def _errors(
    cls: type[BaseModel], build: Callable[[Sequence[Change]], dict[str, Any]], changes: Sequence[Change]
) -> list[ErrorDetails]:
    """What is wrong with ``build(changes)``."""
    try:
        cls.model_validate(build(changes))
    except ValidationError as error:
        return error.errors(include_url=False)
    return []


def _leads_to(path: Sequence[str], place: Sequence[str]) -> bool:
    """Whether ``place`` is at or inside ``path``; errors name the tags of unions too, which keys do not."""
    steps = iter(place)
    return all(step in steps for step in path)


def _placed(tree: Any, path: Sequence[str]) -> list[str]:  # noqa: ANN401 - a TOML tree
    """``path`` with positions for the kinds of parts, as errors name them."""
    found = []
    for step in path:
        names = _names(tree) if isinstance(tree, list) else []
        place = str(names.index(step)) if step in names else step
        found.append(place)
        if isinstance(tree, list):
            at = whole_number(place)
            tree = tree[at] if at is not None and at < len(tree) else None
        else:
            tree = tree.get(place) if isinstance(tree, dict) else None
    return found


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as dotted keys, for comparing two of them."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
