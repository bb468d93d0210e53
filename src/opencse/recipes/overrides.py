"""Changes settings by dotted keys (``--set key.path=value``), and finds the change that makes settings invalid."""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from opencse.errors import UserError, shortened
from opencse.numerals import whole_number


@dataclass(frozen=True)
class Change:
    """A setting to replace, and the value to replace it with.

    Attributes:
        where: where it comes from, for error messages (``--set training.epochs=2``, ``simcse:crop-10``).
        key: dotted; in a list of parts a step is a part's kind, or the position in the list:
            ``objective.negatives.in_batch.weight``; of two parts of a kind the second is ``in_batch#2``. A part of a
            kind that the list does not have is added at its end: ``objective.terms.dcl={ kind = "dcl" }``.
        value: plain, as read from TOML; complete lists and tables too.
    """

    where: str
    key: str
    value: object

    @property
    def path(self) -> list[str]:
        """The steps of the key."""
        return self.key.split(".")


def parse_override(override: str) -> tuple[str, Any]:
    """Splits ``key.path=value`` into the key and the value, read as TOML; a bare word is a string.

    Example:
        >>> parse_override("training.learning_rate=1e-4"), parse_override("encoder.pooling=mean")
        (('training.learning_rate', 0.0001), ('encoder.pooling', 'mean'))

    Raises:
        UserError: without a key or an equals sign.
    """
    key, sign, text = override.partition("=")
    if not sign or not key.strip():
        raise UserError(f"--set {override}: key.path=value is expected, for instance training.learning_rate=1e-4")
    try:
        return key.strip(), tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # not TOML, or a number or nesting too large for Python
        return key.strip(), text.strip()


def as_overrides(settings: Mapping[str, Any]) -> list[str]:
    """Writes settings, in tables or by dotted keys, as `parse_override` reads them.

    Example:
        >>> as_overrides({"training": {"epochs": 2}, "objective.terms": [{"kind": "dcl", "weight": 0.5}]})
        ['training.epochs=2', 'objective.terms=[{"kind" = "dcl", "weight" = 0.5}]']

    Raises:
        UserError: for a value that a recipe cannot hold, such as None.
    """
    return [f"{key}={as_toml(value, key)}" for key, value in flatten(settings).items()]


def as_toml(value: object, key: str) -> str:
    """Writes the value of ``key`` as TOML.

    Raises:
        UserError: for a value that a recipe cannot hold, such as None.
    """
    if isinstance(value, Mapping):
        return (
            "{"
            + ", ".join(f"{json.dumps(name, ensure_ascii=False)} = {as_toml(one, key)}" for name, one in value.items())
            + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(as_toml(one, key) for one in value) + "]"
    if isinstance(value, str | Path):
        return json.dumps(str(value), ensure_ascii=False)
    if isinstance(value, Real):
        return str(value).lower()  # also true, nan and inf
    raise UserError(
        f"settings: {key} is {value!r}; a setting is a number, a text, true, false, or a list or table of these. Leave "
        "it out for its default"
    )


def require_keys_once(overrides: Iterable[str]) -> None:
    """Refuses two settings of one key, of which one would be without effect.

    Example:
        >>> require_keys_once(["training.epochs=2", "training.seed=1"])

    Raises:
        UserError: naming both; or for one without a key or an equals sign.
    """
    by_key: dict[str, str] = {}
    for override in overrides:
        key, _ = parse_override(override)
        if key in by_key:
            raise UserError(
                f"{shortened(key)} is set twice ({shortened(by_key[key])} and {shortened(override)}); set it once"
            )
        by_key[key] = override


def require_set_once(overrides: Iterable[str], options: Mapping[str, str]) -> None:
    """Refuses two settings of one key, and a setting that an option of its own sets too.

    Example:
        >>> require_set_once(["training.epochs=2"], {"training.seed": "--seed 1"})

    Args:
        overrides: ``key.path=value`` each.
        options: the options that were typed, each by the key that it sets.

    Raises:
        UserError: naming both; or for one without a key or an equals sign.
    """
    changes = tuple(overrides)
    require_keys_once(changes)
    for override in changes:
        if option := options.get(parse_override(override)[0]):
            raise UserError(f"{option} and --set {shortened(override)} are of one setting; leave one of them out")


def changes_of(settings: Mapping[str, object], where: str) -> list[Change]:
    """Turns dotted keys and values into changes, in an order in which they can be applied one after the other.

    A table comes before its settings and a ``kind`` before the other settings of its part, so the order in which they
    are written does not matter; of two changes of one key the later one counts.
    """
    return in_order(Change(where, key, value) for key, value in settings.items())


def in_order(changes: Iterable[Change]) -> list[Change]:
    """Sorts changes: a table before its settings, a ``kind`` before its part's other settings; otherwise unchanged."""
    return sorted(changes, key=lambda change: (len(change.path), change.path[-1] != "kind"))


def changed(data: Mapping[str, Any], changes: Iterable[Change]) -> dict[str, Any]:
    """Returns a copy of ``data`` with ``changes`` applied one after the other.

    Example:
        >>> data = {"training": {"epochs": 1, "seed": 42}}
        >>> changed(data, [Change("--set training.epochs=2", "training.epochs", 2)])
        {'training': {'epochs': 2, 'seed': 42}}

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
            node.append(value)  # a new part, of a kind that the list does not have
        else:
            node[_index(node, last, change)] = value
    elif isinstance(node, dict):
        if last == "kind" and node.get("kind") != value:
            node.clear()  # a part of another kind has other settings
        node[last] = value
    else:
        raise UserError(f"{change.where}: {path[-1]} is a plain value, it has no settings inside")


def _child(node: Any, step: str, change: Change) -> Any:  # noqa: ANN401 - a TOML tree
    if isinstance(node, list):
        return node[_index(node, step, change)]
    if isinstance(node, dict):
        if node.get(step) is None:  # an unset table
            node[step] = {}
        return node[step]
    raise UserError(f"{change.where}: {step!r} is inside a plain value")


def _index(node: list[Any], step: str, change: Change) -> int:
    names = _names(node)
    if step in names:
        return names.index(step)
    position = whole_number(step)
    if position is None or position >= len(node):
        known = f"; there are: {', '.join(names)}" if names else ""
        raise UserError(f"{change.where}: {shortened(step)!r} is not a position in a list of {len(node)}{known}")
    return position


def _names(parts: list[Any]) -> list[str]:
    """The names of the parts of a list in keys; empty if it is not a list of parts."""
    kinds = [str(item["kind"]) for item in parts if isinstance(item, dict) and "kind" in item]
    kinds = [kind.rpartition(":")[2] for kind in kinds]  # the key of package.module:Class is Class
    if len(kinds) < len(parts):
        return []
    return [kind if (n := kinds[: i + 1].count(kind)) == 1 else f"{kind}#{n}" for i, kind in enumerate(kinds)]


def blame(
    cls: type[BaseModel],
    changes: Sequence[Change],
    build: Callable[[Sequence[Change]], dict[str, Any]],
    written: Sequence[Change],
) -> tuple[str, ErrorDetails]:
    """Finds the change that makes ``build(changes)`` invalid for ``cls``, and the error.

    It is the change without which there would be no such error and no other one; every such change, where two settings
    do not go together. Of several errors, the one whose change was written first is returned.

    Args:
        cls: the settings class.
        changes: at least one, in the order in which they are applied.
        build: returns the tree of settings with some changes applied.
        written: the changes in the order in which the user wrote them; as they are applied, by default.

    Returns:
        The ``where`` of the change, or of several joined by "and"; and the error.
    """
    order = list(written or changes)
    before = {_key(error): error for error in _errors(cls, build, changes)}
    without: list[tuple[Change, set[object]]] = []
    for change in changes:
        with suppress(UserError):  # another change leads nowhere without this one
            errors = _errors(cls, build, [other for other in changes if other is not change])
            without.append((change, {_key(error) for error in errors}))
    faults = []
    for key, error in before.items():
        guilty = [change for change, after in without if after <= before.keys() - {key}]
        lifting = [change for change, after in without if key not in after]  # another fault that this one hid comes up
        faults.append((guilty or lifting or list(changes[:1]), error))
    at_fault, first = min(faults, key=lambda one: min(map(order.index, one[0])))
    return " and ".join(dict.fromkeys(change.where for change in at_fault)), first


def _key(error: ErrorDetails) -> object:
    return error["loc"], error["type"], error["msg"]


def _errors(
    cls: type[BaseModel], build: Callable[[Sequence[Change]], dict[str, Any]], changes: Sequence[Change]
) -> list[ErrorDetails]:
    """The validation errors of ``build(changes)``."""
    try:
        cls.model_validate(build(changes))
    except ValidationError as error:
        return error.errors(include_url=False)
    return []


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested settings as dotted keys, to compare two of them.

    Example:
        >>> flatten({"training": {"epochs": 1, "seed": 42}})
        {'training.epochs': 1, 'training.seed': 42}
    """
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
