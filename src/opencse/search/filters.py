"""Conditions on metadata, as SQL."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence

from opencse.errors import UserError, require_known, shortened
from opencse.numerals import whole_number
from opencse.search.rows import Value, plain

Where = Mapping[str, object]
"""By column: a value, a list of values, or comparisons: ``(">=", 2)``, ``(">=", 2, "<", 9)`` or ``{">=": 2, "<": 9}``.

All must hold. A number is compared with numbers alone and a text with texts alone; an empty value only equals None.
"""
_TYPED = re.compile(r"(?P<name>[^=<>!]+)(?P<operator>!=|<=|>=|==|=|<|>)(?P<value>.*)", re.DOTALL)
_OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
MOST = 500
"""Comparisons of one search; SQLite takes no more than a thousand."""


def sql_of(where: Where, columns: Mapping[str, str], kinds: Mapping[str, str]) -> tuple[str, list[Value]]:
    """The condition and its parameters.

    Args:
        where: what must hold.
        columns: the SQL name of each column.
        kinds: what each column of metadata holds: number, text or mixed.

    Raises:
        UserError: for an unknown column or operator, a value of another kind than the column's, or more than `MOST`
            comparisons.
    """
    parts: list[str] = []
    values: list[Value] = []
    for name, wanted in where.items():
        require_known(name, list(columns), "column")
        for operator, value in _comparisons(name, wanted):
            text, more = _one(columns[name], operator, value, name, kinds.get(name, "text"))
            parts.append(text)
            values += more
    if len(parts) > MOST:
        raise UserError(f"where: {len(parts):,} comparisons; give at most {MOST}, or a list of values for =")
    return " AND ".join(parts) or "1", values


def _comparisons(name: str, wanted: object) -> list[tuple[str, object]]:
    if isinstance(wanted, Mapping):
        pairs = list(wanted.items())
    elif isinstance(wanted, tuple):
        if len(wanted) % 2 or not wanted:
            raise UserError(f"where: column {name!r}: comparisons are pairs such as ('>=', 2); give a list for values")
        pairs = list(zip(wanted[::2], wanted[1::2], strict=True))
    else:
        return [("=", wanted)]
    for operator, _ in pairs:
        require_known(str(operator), _OPERATORS, "operator")
    return pairs


def _one(column: str, operator: str, wanted: object, name: str, kind: str) -> tuple[str, list[Value]]:
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        if operator not in ("=", "!="):
            raise UserError(f"where: column {name!r}: {operator} compares with one value, not with a list")
        values = [_of_kind(value, name, kind) for value in wanted]
        text = f"{column} IN (SELECT value FROM json_each(?))"
        if None in values:
            text = f"({text} OR {column} IS NULL)"
        return (text if operator == "=" else f"NOT coalesce({text}, 0)"), [json.dumps(values)]
    value = _of_kind(wanted, name, kind)
    if value is None:
        if operator not in ("=", "!="):
            raise UserError(f"where: column {name!r}: {operator} compares with a value, not with nothing")
        return f"{column} IS {'' if operator == '=' else 'NOT '}NULL", []
    if operator == "=":
        return f"{column} = ?", [value]
    if operator == "!=":
        return f"{column} IS NOT ?", [value]
    kinds = "'text'" if isinstance(value, str) else "'integer', 'real'"
    return f"(typeof({column}) IN ({kinds}) AND {column} {operator} ?)", [value]


def _of_kind(wanted: object, name: str, kind: str) -> Value:
    """A value that a column of that kind may hold."""
    value = plain(wanted, "where", name)
    if kind == "number" and isinstance(value, str):
        raise UserError(f"where: the column {name!r} holds numbers, and {shortened(value)!r} is a text; give a number")
    if kind == "text" and value is not None and not isinstance(value, str):
        raise UserError(f"where: the column {name!r} holds texts, and {value} is a number; give a text")
    return value


def parse_where(conditions: Sequence[str], columns: Mapping[str, str]) -> Where:
    """Conditions as they are typed: ``year>=2020``, ``lang=en`` (or ``lang==en``), ``lang=en,de``, ``lang!=en``.

    What follows the operator is a number where the column holds numbers; ``[...]`` is read as a JSON list, for texts
    with a comma. An empty value is none.

    Args:
        conditions: all must hold; several may be of one column.
        columns: the kind of value of each: number, text or mixed.

    Raises:
        UserError: for what is no condition, a column that is not there, or a value that is no number where the column
            holds numbers.
    """
    found: dict[str, dict[str, object]] = {}
    for condition in conditions:
        match = _TYPED.fullmatch(condition.strip())
        shown = shortened(condition)
        if match is None:
            raise UserError(f"--where {shown!r}: a condition is COLUMN=VALUE, or with != < <= > >=")
        name, operator, value = match["name"].strip(), match["operator"].replace("==", "="), match["value"].strip()
        require_known(name, ["id", *columns], "column")
        of_column = found.setdefault(name, {})
        if operator in of_column:
            raise UserError(f"--where {shown!r}: {operator} is given twice for {name!r}; list values with commas")
        of_column[operator] = _typed(value, columns.get(name, "text"), operator, shown)
    return found


def _typed(text: str, kind: str, operator: str, condition: str) -> object:
    if text.startswith("["):
        try:
            return list(json.loads(text))
        except (ValueError, TypeError, RecursionError):
            raise UserError(f"--where {condition!r}: what begins with [ is a JSON list; this is none") from None
    parts = [part.strip() for part in text.split(",")] if operator in ("=", "!=") else [text]
    values = [_value(part, kind) for part in parts]
    for part, value in zip(parts, values, strict=True):
        if kind == "number" and isinstance(value, str):
            raise UserError(f"--where {condition!r}: the column holds numbers, and {shortened(part)!r} is none")
    return values[0] if len(values) == 1 else values


def _value(text: str, kind: str) -> Value:
    if not text:
        return None
    if kind == "text" or not _NUMBER.fullmatch(text):
        return text
    if whole_number(text.lstrip("+-")) is not None:
        return int(text)
    number = float(text)
    return number if math.isfinite(number) else text
