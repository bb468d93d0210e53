"""Leaves out rows with an empty cell, and checks the texts of the others: each is text, no column has numbers alone."""

from __future__ import annotations

from collections.abc import Iterable

from opencse.errors import UserError
from opencse.numerals import is_number, number_of
from opencse.text.files.formats import RawRow
from opencse.text.scripts import is_unicode

_GRADED = (
    "if it is the score or class of a pair, choose a recipe that learns from it (cosent, sbert), or leave it out "
    "(--columns first,second); a file of graded pairs can select the checkpoint too (--dev)"
)


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
        """Refuses pairs or triples in which one column holds only numbers.

        Raises:
            UserError: naming it.
        """
        for name, text in (self._names or {}).items() if len(self._names or {}) < self._width else ():
            raise UserError(
                f"{self._where}: column {name!r} holds only numbers ({text[:20]}, ...), not texts; {_GRADED}"
            )


def empty_column(record: RawRow) -> str | None:
    """The first column of a record without a value: it leaves the row out.

    Example:
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
        >>> row = RawRow(7, 0, ("question", "answer"), ("How long?", " "))
        >>> line_about_empty([row], "line")
        "left out   1 of 1 row, with an empty cell (the first: line 7, column 'answer')"
    """
    rows, left_out, first = 0, 0, ""
    for record in records:
        rows += 1
        if (name := empty_column(record)) is not None:
            left_out += 1
            first = first or f"{unit} {record.number}, column {name!r}"
    if not left_out:
        return ""
    return f"left out   {left_out:,} of {number_of(rows, 'row')}, with an empty cell (the first: {first})"


def checked_texts(record: RawRow, location: str, unit: str) -> tuple[str, ...]:
    """The texts of a record, without white space around them.

    Example:
        >>> checked_texts(RawRow(1, 0, ("text",), (" A cat. ",)), "a.csv", "line")
        ('A cat.',)

    Raises:
        UserError: for a value that is no text, or empty, naming file, row and column.
    """
    texts: list[str] = []
    for name, value in zip(record.names, record.values, strict=True):
        text = value.strip() if isinstance(value, str) else ""
        if not text or not is_unicode(text):
            where = f"{location}, {unit} {record.number}: column {name!r}"
            if text:
                raise UserError(f"{where} holds half of a surrogate pair, which is not text; correct its \\u escapes")
            if value is None or isinstance(value, str):
                raise UserError(f"{where} is empty; fill it or drop the {unit}")
            if isinstance(value, int | float) and not isinstance(value, bool) and len(record.names) > 1:
                raise UserError(f"{where} holds a number, not text; {_GRADED}")
            raise UserError(f"{where} holds {type(value).__name__}, not text; correct it or name another column")
        texts.append(text)
    return tuple(texts)
