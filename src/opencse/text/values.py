"""Checks values: what counts as a list of texts, which cells are empty, and that others are text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Set
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeGuard

from opencse.errors import UserError, shortened
from opencse.numerals import is_number, number_of
from opencse.text.scripts import is_unicode

if TYPE_CHECKING:
    from opencse.text.files.formats import RawRow

_GRADED = (
    "if it is the score or class of a pair, choose a recipe that learns from it (cosent, sbert), or leave it out "
    "(--columns first,second); a file of graded pairs can select the checkpoint too (--dev)"
)


def is_list(values: object) -> TypeGuard[Iterable[Any]]:
    """Whether the members of ``values`` are one after another; not those of sets, mappings and tables.

    Columns of pandas and arrays with one axis are lists.
    """
    flat = getattr(values, "ndim", 1) == 1  # a table's members are its columns
    return isinstance(values, Iterable) and flat and not isinstance(values, bytes | bytearray | Mapping | Set)


def is_missing(value: object) -> bool:
    """Whether a value is None, or what pandas has for an empty cell: nan, NaT and NA, none of which equals itself.

    Example:
        >>> [is_missing(value) for value in (None, float("nan"), "", 0)]
        [True, True, False, False]
    """
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # NA says neither, and so do arrays
        return not hasattr(value, "__len__")


def as_list(texts: object) -> list[Any]:
    """The members of ``texts`` as a list; refuses values without an order, such as sets and mappings."""
    if is_list(texts):
        return list(texts)
    raise UserError(f"texts: a string or a list of strings is expected, not {type(texts).__name__}")


def some_of(texts: object, message: str) -> list[Any]:
    """The members of ``texts``, at least one, as a list.

    Raises:
        UserError: saying ``message`` for a single string and for an empty list; for values without an order.
    """
    listed = [] if isinstance(texts, str) else as_list(texts)
    if not listed:
        raise UserError(message)
    return listed


def rows_of(values: object, message: str) -> list[Any]:
    """The members of a list that may be read more than once: no generator, which is empty after the first time.

    Example:
        >>> import numpy as np
        >>> rows_of(np.array(["a", "b"]), "text is a list of texts")
        ['a', 'b']
        >>> rows_of({"a": 1}, "text is a list of texts")
        Traceback (most recent call last):
        TypeError: text is a list of texts, not dict

    Args:
        values: the list.
        message: what is expected, for the error.

    Raises:
        TypeError: for anything else; for a table with the way to give its rows.
    """
    if is_list(values) and not isinstance(values, str | Iterator):
        return list(getattr(values, "tolist", lambda: values)())  # Python's own texts, not numpy's
    rows = "; of a table give a column, or its rows as tuples" if getattr(values, "ndim", 1) > 1 else ""
    raise TypeError(f"{message}, not {type(values).__name__}{rows}")


def require_text(value: object, name: str, where: str) -> str:
    """Returns a value that has to be text.

    Example:
        >>> require_text("A cat.", "'title'", "a.jsonl, line 1")
        'A cat.'
        >>> require_text(7, "'title'", "a.jsonl, line 1")
        Traceback (most recent call last):
        ...
        opencse.errors.UserError: a.jsonl, line 1: 'title' is int, not text; correct it or name another column

    Args:
        value: as read.
        name: names it in messages.
        where: names its record in messages.

    Raises:
        UserError: for anything else, and for text that holds half of a surrogate pair.
    """
    if not isinstance(value, str):
        raise UserError(f"{where}: {name} is {type(value).__name__}, not text; correct it or name another column")
    if not is_unicode(value):
        raise UserError(f"{where}: {name} holds half of a surrogate pair, which is not text; correct its \\u escapes")
    return value


def require_filled(value: object, name: str, where: str, unit: str = "line") -> str:
    """Returns a text that must not be empty, without white space around it.

    Example:
        >>> require_filled(" A cat. ", "sentence1", "a.jsonl, line 1")
        'A cat.'

    Args:
        value: as read.
        name: names it in messages.
        where: names its record in messages.
        unit: what a record is: a line or a row.

    Raises:
        UserError: as `require_text`; and for white space alone.
    """
    text = "" if value is None else require_text(value, name, where).strip()
    if not text:
        raise UserError(f"{where}: {name} is empty; fill it or drop the {unit}")
    return text


def finite_number(value: object, where: str, unit: str = "line", noun: str = "score", hint: str = "") -> float:
    """Returns a cell as a finite number.

    Args:
        value: as read.
        where: names its record in messages.
        unit: what a record is: a line or a row.
        noun: what the number is.
        hint: ends the message of a cell that is text.

    Raises:
        UserError: for an empty cell, or anything else.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        raise UserError(f"{where}: the {noun} is empty; fill it or drop the {unit}")
    if isinstance(value, bool) or not isinstance(value, Real | str):
        raise UserError(f"{where}: the {noun} is {type(value).__name__}, not a number")
    try:
        number = float(value)
    except (ValueError, OverflowError):
        raise UserError(f"{where}: the {noun} {shortened(repr(value))} is not a number{hint}") from None
    if not math.isfinite(number):
        raise UserError(f"{where}: the {noun} is {number}; a finite number is expected, fill it or drop the {unit}")
    return number


class NumericColumns:
    """Finds columns that hold only numbers: scores, labels or ids that were named by mistake.

    Example:
        >>> columns = NumericColumns("pairs.csv")
        >>> columns.look(("anchor", "positive"), ("A cat.", "The cat."))
        >>> columns.refuse()  # no column holds numbers alone

    Args:
        where: names the file in messages.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._names: dict[str, str] | None = None
        self._width = 0

    def look(self, names: tuple[str, ...], texts: tuple[str, ...]) -> None:
        """Examines a row; after the first few rows of text this costs nothing."""
        if self._names is None:
            self._names, self._width = dict(zip(names, texts, strict=True)), len(names)
        for name, text in zip(names, texts, strict=True) if self._names else ():
            if name in self._names and not is_number(text):
                del self._names[name]

    def refuse(self) -> None:
        """Refuses pairs or triples in which one column holds only numbers."""
        for name, text in (self._names or {}).items() if len(self._names or {}) < self._width else ():
            raise UserError(
                f"{self._where}: column {name!r} holds only numbers ({text[:20]}, ...), not texts; {_GRADED}"
            )


def empty_column(record: RawRow) -> str | None:
    """The first column of a record without a value: it leaves the row out.

    Example:
        >>> from opencse.text.files.formats import RawRow
        >>> empty_column(RawRow(7, 0, ("question", "answer"), ("How long?", " ")))
        'answer'
    """
    for name, value in zip(record.names, record.values, strict=True):
        if value is None or (isinstance(value, str) and not value.strip()):
            return name
    return None


def line_about_empty(records: Iterable[RawRow], unit: str) -> str:
    """A line for the user about the rows that are left out because a cell is empty; empty where there are none.

    Example:
        >>> from opencse.text.files.formats import RawRow
        >>> row = RawRow(7, 0, ("question", "answer"), ("How long?", " "))
        >>> line_about_empty([row], "line")
        "left out   1 of 1 row, with an empty cell (the first: line 7, column 'answer')"
    """
    rows, left_out, null, first = 0, 0, 0, ""
    for record in records:
        rows += 1
        if (name := empty_column(record)) is not None:
            left_out += 1
            null += None in record.values
            first = first or f"{unit} {record.number}, column {name!r}"
    if not left_out:
        return ""
    nulls = f"; {null:,} NULL, NA or the like" if null else ""
    return f"left out   {left_out:,} of {number_of(rows, 'row')}, with an empty cell (the first: {first}{nulls})"


def checked_texts(record: RawRow, location: str, unit: str) -> tuple[str, ...]:
    """The texts of a record, without white space around them.

    Example:
        >>> from opencse.text.files.formats import RawRow
        >>> checked_texts(RawRow(1, 0, ("text",), (" A cat. ",)), "a.csv", "line")
        ('A cat.',)

    Raises:
        UserError: for a value that is no text, or empty, naming file, row and column.
    """
    texts = tuple(value.strip() if isinstance(value, str) else "" for value in record.values)
    if not all(map(is_unicode, texts)) or not all(texts):
        where = f"{location}, {unit} {record.number}"
        for name, value in zip(record.names, record.values, strict=True):
            if isinstance(value, int | float) and not isinstance(value, bool) and len(record.names) > 1:
                raise UserError(f"{where}: column {name!r} holds a number, not text; {_GRADED}")
            require_filled(value, f"column {name!r}", where, unit)
    return texts
