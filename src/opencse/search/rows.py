"""Rows of an index: a text with an id and metadata, and the checks of rows before they are stored."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import quote

from opencse.errors import UserError
from opencse.text.in_memory import is_list, is_missing
from opencse.text.scripts import is_unicode
from opencse.text.values import require_filled

Value = str | int | float | None
"""A value of metadata; booleans are stored as 0 and 1, dates as ISO text."""
_ESCAPED = "escaped:"
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True)
class IndexRow:
    """One text of an index.

    Example:
        >>> IndexRow("A cat sleeps.", "a1", {"year": 2020}).metadata["year"]
        2020

    Attributes:
        text: encoded, and returned in hits.
        id: names the row in hits and for deletion; None: the next free whole number.
        metadata: values by column.
    """

    text: str
    id: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)


RowLike = str | IndexRow | Mapping[str, object]
"""A text; an `IndexRow`; or a mapping with ``text``, maybe ``id``, and columns of metadata."""


def checked_rows(rows: Iterable[RowLike], where: str = "rows") -> Iterator[IndexRow]:
    """Converts each row to an `IndexRow` whose values can be stored; nan and NaT of pandas are empty values.

    Example:
        >>> [row.id for row in checked_rows(["A cat.", {"text": "A dog.", "id": 7}])]
        [None, '7']

    Raises:
        TypeError: for an object that is no row.
        UserError: for an empty text or id, an id that occurs twice, or a value that cannot be stored, naming the row.
    """
    if isinstance(rows, str) or not is_list(rows):
        table = "; of a table give its rows, as to_dict('records') of pandas does" if hasattr(rows, "columns") else ""
        raise TypeError(f"{where} is a list of texts or rows, not {type(rows).__name__}{table}")
    ids = UniqueIds(f"{where}[{{}}]")
    for number, item in enumerate(rows):
        row = _row(item, f"{where}[{number}]")
        values = {name: None if is_missing(value) else value for name, value in row.metadata.items()}
        row = checked(replace(row, metadata=values), f"{where}[{number}]")
        ids.add(row.id, number)
        yield row


class UniqueIds:
    """Checks that no id occurs twice among rows that are read together.

    Args:
        where: how a row is named in messages, with ``{}`` for its number.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._numbers: dict[str, int] = {}

    def add(self, name: str | None, number: int) -> None:
        """Remembers the id of a row.

        Raises:
            UserError: if an earlier row has it.
        """
        if name is not None and (before := self._numbers.setdefault(name, number)) != number:
            row, earlier = self._where.format(number), self._where.format(before)
            raise UserError(f"{row}: the id {name[:80]!r} is also that of {earlier}; give each row its own id")


def checked(row: IndexRow, where: str) -> IndexRow:
    """Converts a row's values to plain ones and removes white space around text and id.

    Args:
        row: to check.
        where: names the row in messages.

    Raises:
        UserError: for an empty text or id, half a surrogate pair, or a value that cannot be stored.
    """
    text = require_filled(row.text, "the text", where, "row")
    name = None if row.id is None else require_filled(id_text(row.id), "the id", where, "row")
    values: dict[str, object] = {}
    for key, value in row.metadata.items():
        column = require_filled(key, "the name of a column", where, "row")
        if column in ("id", "text"):
            raise UserError(f"{where}: {column!r} is no metadata but part of the row; rename the column")
        values[column] = plain(value, where, column)
    return IndexRow(text, name, values)


def id_text(name: str | int) -> str:
    """The id under which a row is stored: text without white space around it.

    Example:
        >>> id_text(7), id_text(" a1 ")
        ('7', 'a1')
    """
    return str(name).strip()


def plain(value: object, where: str, column: str) -> Value:
    """Converts a value of metadata to one that can be stored.

    Example:
        >>> import datetime
        >>> plain(datetime.date(2026, 11, 25), "row 1", "date")
        '2026-11-25'

    Raises:
        UserError: for a value that is neither text, finite number, date nor empty.
    """
    if isinstance(value, bool):
        return int(value)
    if hasattr(value, "item") and not isinstance(value, str):  # a NumPy scalar
        value = value.item()
    if isinstance(value, int):
        if -(2**63) <= value < 2**63:
            return value
        raise UserError(f"{where}: column {column!r} holds a whole number of more than 64 bits; give it as text")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UserError(f"{where}: column {column!r} holds {value}, which is no number; leave the value empty")
        return value
    if isinstance(value, str):
        if not is_unicode(value):
            raise UserError(f"{where}: column {column!r} holds half of a surrogate pair, which is not text")
        return value
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if value is None:
        return None
    raise UserError(
        f"{where}: column {column!r} holds {type(value).__name__}; metadata are texts, numbers, dates or empty: leave "
        "the column out, or join its values to one text"
    )


def _row(item: RowLike, where: str) -> IndexRow:
    if isinstance(item, str):
        return IndexRow(item)
    if isinstance(item, IndexRow):
        return item
    if isinstance(item, Mapping):
        rest = dict(item)
        text, name = rest.pop("text", None), rest.pop("id", None)
        if "text" in item and is_missing(text):
            raise UserError(f"{where}: the text is empty; fill it or drop the row")
        if not isinstance(text, str):
            raise UserError(f"{where} has no 'text'; its keys: {', '.join(map(str, item)) or 'none'}")
        if name is not None and not isinstance(name, str | int):
            raise UserError(f"{where}: the id is {type(name).__name__}; give a text or a whole number")
        return IndexRow(text, None if name is None else str(name), rest)
    if is_missing(item):
        raise UserError(f"{where}: the text is empty; fill it or drop the row")
    raise TypeError(f"{where} is a text, an IndexRow or a mapping, not {type(item).__name__}")


def exported_id(text_id: str) -> str:
    r"""The id of a document of an index in a retrieval data set.

    It is the document's own, or one without characters that a table of tabs cannot hold. Different ids stay different.

    Example:
        >>> exported_id("docs/a b.html"), exported_id("a\tb")
        ('docs/a b.html', 'escaped:a%09b')
    """
    if _UNSAFE.search(text_id) or text_id.startswith(('"', _ESCAPED)):
        return _ESCAPED + quote(text_id, safe=" /:?&=#,;()[]!'*+@$~")
    return text_id
