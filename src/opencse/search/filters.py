"""Conditions on metadata (``where``): read from text such as ``year>=2020``, and translated to SQL."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence

from opencse.errors import UserError, require_known, shortened
from opencse.numerals import whole_number
from opencse.search.rows import Value, plain

Where = Mapping[str, object] | Sequence[str]
"""Conditions, all of which must hold.

Either a mapping from a column to a value, a list of values, or comparisons: ``("<", 2)``, ``(">=", 2, "<", 9)`` or
``{">=": 2, "<": 9}``; or a list of conditions as on the command line: ``["year>=2020", "language=en,de"]``. Numbers are
only compared with numbers and texts with texts; an empty value only equals None.
"""
_TYPED = re.compile(r"(?P<name>[^=<>!]+)(?P<operator>!=|<=|>=|==|=|<|>)(?P<value>.*)", re.DOTALL)
_OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
MOST = 500
"""Comparisons in one search, at most; SQLite allows a thousand."""


def sql_of(where: Where, columns: Mapping[str, str], kinds: Mapping[str, str]) -> tuple[str, list[Value]]:
    """Translates conditions to an SQL condition and its parameters.

    Example:
        >>> sql_of({"year": (">=", 2020)}, {"year": "c0"}, {"year": "number"})
        ("(typeof(c0) IN ('integer', 'real') AND c0 >= ?)", [2020])
        >>> sql_of(["year=2020,2021"], {"year": "c0"}, {"year": "number"})
        ('c0 IN (SELECT value FROM json_each(?))', ['[2020, 2021]'])

    Args:
        where: conditions.
        columns: the SQL name of each column.
        kinds: the type of values of each column of metadata: number, text or mixed.

    Raises:
        UserError: for an unknown column or operator, a value of another type than the column's, or more than `MOST`
            comparisons.
    """
    if not isinstance(where, Mapping):
        where = parse_where([where] if isinstance(where, str) else where, kinds)
    parts: list[str] = []
    values: list[Value] = []
    for name, condition in where.items():
        require_known(name, list(columns), "column")
        for operator, value in _comparisons(name, condition):
            sql, parameters = _comparison_sql(columns[name], operator, value, name, kinds.get(name, "text"))
            parts.append(sql)
            values += parameters
    if len(parts) > MOST:
        raise UserError(f"where: {len(parts):,} comparisons; give at most {MOST}, or a list of values for =")
    return " AND ".join(parts) or "1", values


def _comparisons(name: str, condition: object) -> list[tuple[str, object]]:
    """The operators and values of a condition on one column."""
    if isinstance(condition, Mapping):
        pairs = list(condition.items())
    elif isinstance(condition, tuple):
        if len(condition) % 2 or not condition:
            raise UserError(f"where: column {name!r}: comparisons are pairs such as ('>=', 2); give a list for values")
        pairs = list(zip(condition[::2], condition[1::2], strict=True))
    else:
        return [("=", condition)]
    for operator, _ in pairs:
        require_known(str(operator), _OPERATORS, "operator")
    return pairs


def _comparison_sql(column: str, operator: str, operand: object, name: str, kind: str) -> tuple[str, list[Value]]:
    if isinstance(operand, Sequence) and not isinstance(operand, str):
        if operator not in ("=", "!="):
            raise UserError(f"where: column {name!r}: {operator} compares with one value, not with a list")
        values = [_of_kind(value, name, kind) for value in operand]
        sql = f"{column} IN (SELECT value FROM json_each(?))"
        if None in values:
            sql = f"({sql} OR {column} IS NULL)"
        return (sql if operator == "=" else f"NOT coalesce({sql}, 0)"), [json.dumps(values)]
    value = _of_kind(operand, name, kind)
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


def _of_kind(operand: object, name: str, kind: str) -> Value:
    """Checks that a column of that type may hold the value."""
    value = plain(operand, "where", name)
    if kind == "number" and isinstance(value, str):
        raise UserError(f"where: the column {name!r} holds numbers, and {shortened(value)!r} is a text; give a number")
    if kind == "text" and value is not None and not isinstance(value, str):
        raise UserError(f"where: the column {name!r} holds texts, and {value} is a number; give a text")
    return value


def parse_where(conditions: Sequence[str], columns: Mapping[str, str]) -> Mapping[str, object]:
    """Reads conditions as they are typed: ``year>=2020``, ``lang=en`` (or ``lang==en``), ``lang=en,de``, ``lang!=en``.

    The value is a number where the column holds numbers; ``[...]`` is read as a JSON list, for texts with a comma. An
    empty value means no value.

    Example:
        >>> parse_where(["year>=2020", "year<2025", "lang=en,de"], {"year": "number", "lang": "text"})
        {'year': {'>=': 2020, '<': 2025}, 'lang': {'=': ['en', 'de']}}

    Args:
        conditions: all must hold; several may be of one column.
        columns: the type of values of each column: number, text or mixed.

    Raises:
        UserError: for an invalid condition, an unknown column, or a value that is not a number where the column holds
            numbers.
    """
    where: dict[str, dict[str, object]] = {}
    for condition in conditions:
        match = _TYPED.fullmatch(condition.strip())
        short = shortened(condition)
        if match is None:
            raise UserError(f"--where {short!r}: a condition is COLUMN=VALUE, or with != < <= > >=")
        name, operator, value = match["name"].strip(), match["operator"].replace("==", "="), match["value"].strip()
        require_known(name, ["id", *columns], "column")
        of_column = where.setdefault(name, {})
        if operator in of_column:
            raise UserError(f"--where {short!r}: {operator} is given twice for {name!r}; list values with commas")
        of_column[operator] = _typed(value, columns.get(name, "text"), operator, short)
    return where


def _typed(text: str, kind: str, operator: str, condition: str) -> object:
    """The value or list of values of a typed condition."""
    if text.startswith("["):
        try:
            return list(json.loads(text))
        except (ValueError, TypeError, RecursionError):
            raise UserError(f"--where {condition!r}: a value that begins with [ must be a JSON list") from None
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
