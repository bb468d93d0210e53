"""What an index is made of: rows of text with an id and metadata, checked before they are kept."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from opencse.errors import UserError
from opencse.text.scripts import is_unicode

Value = str | int | float | None
"""What a column of metadata holds; booleans are kept as 0 and 1, dates as ISO text."""


@dataclass(frozen=True)
class Row:
    """One text of an index.

    Attributes:
        text: what is encoded and told.
        id: names it in hits and for deletion; None: the next whole number that is free.
        metadata: values by column.
    """

    text: str
    id: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)


RowLike = str | Row | Mapping[str, object]
"""A text; a `Row`; or a mapping with ``text``, maybe ``id``, and columns of metadata."""


def checked_rows(rows: Iterable[RowLike], where: str = "rows") -> Iterator[Row]:
    """Each as a `Row` whose values can be kept.

    Raises:
        TypeError: for what is no row.
        UserError: for an empty text or id, an id that occurs twice, or a value that cannot be kept, naming its place.
    """
    if isinstance(rows, str | Mapping):
        raise TypeError(f"{where} is a list of texts or rows, not {type(rows).__name__}")
    ids = Ids(f"{where}[{{}}]")
    for number, given in enumerate(rows):
        row = checked(_row(given, f"{where}[{number}]"), f"{where}[{number}]")
        ids.add(row.id, number)
        yield row


class Ids:
    """The ids of rows that are read together, each of which may occur once.

    Args:
        where: how a row is named in messages, with ``{}`` for its number.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._numbers: dict[str, int] = {}

    def add(self, name: str | None, number: int) -> None:
        """Notes the id of a row.

        Raises:
            UserError: if an earlier row has it.
        """
        if name is not None and (before := self._numbers.setdefault(name, number)) != number:
            here, there = self._where.format(number), self._where.format(before)
            raise UserError(f"{here}: the id {name[:80]!r} is that of {there} too; give every row its own id")


def checked(row: Row, where: str) -> Row:
    """``row`` with plain values, white space around text and id dropped; ``where`` it stands, for messages.

    Raises:
        UserError: for an empty text or id, half a surrogate pair, or a value that cannot be kept.
    """
    text = _text(row.text, where, "the text")
    name = None if row.id is None else _text(str(row.id), where, "the id")
    kept: dict[str, object] = {}
    for key, value in row.metadata.items():
        column = _text(key, where, "the name of a column")
        if column in ("id", "text"):
            raise UserError(f"{where}: {column!r} is the row's own and no metadata; name the column otherwise")
        kept[column] = plain(value, where, column)
    return Row(text, name, kept)


def plain(value: object, where: str, column: str) -> Value:
    """``value`` as it is kept.

    Raises:
        UserError: for what is neither text, finite number, date nor empty.
    """
    if isinstance(value, bool):
        return int(value)
    if hasattr(value, "item") and not isinstance(value, str):  # a scalar of numpy's
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
        f"{where}: column {column!r} holds {type(value).__name__}; metadata are texts, numbers, dates or empty"
    )


def _row(given: RowLike, where: str) -> Row:
    if isinstance(given, str):
        return Row(given)
    if isinstance(given, Row):
        return given
    if isinstance(given, Mapping):
        rest = dict(given)
        text, name = rest.pop("text", None), rest.pop("id", None)
        if not isinstance(text, str):
            raise UserError(f"{where} has no 'text'; keys there: {', '.join(map(str, given)) or 'none'}")
        if name is not None and not isinstance(name, str | int):
            raise UserError(f"{where}: the id is {type(name).__name__}; give a text or a whole number")
        return Row(text, None if name is None else str(name), rest)
    raise TypeError(f"{where} is a text, a Row or a mapping, not {type(given).__name__}")


def _text(value: str, where: str, what: str) -> str:
    if not isinstance(value, str):
        raise UserError(f"{where}: {what} is {type(value).__name__}, not text")
    text = value.strip()
    if not text:
        raise UserError(f"{where}: {what} is empty; fill it or drop the row")
    if not is_unicode(text):
        raise UserError(f"{where}: {what} holds half of a surrogate pair, which is not text")
    return text


def columns_of(rows: Sequence[Row]) -> list[str]:
    """The columns of metadata of some rows, in the order of their first appearance."""
    return list(dict.fromkeys(name for row in rows for name in row.metadata))
