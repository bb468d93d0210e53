"""Rows of an index from files: text, id and metadata by the names of their columns."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from opencse.errors import UserError
from opencse.search.rows import Row, RowLike, checked, checked_rows
from opencse.text.documents import Collection, ReadingNotes

_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d+)?([eE][+-]?\d{1,3})?")
_NO_NUMBERS = ("nan", "inf", "infinity")


class RowSource(Protocol):
    """Rows that can be read again and again."""

    @property
    def name(self) -> str:
        """What a reader would call it."""

    @property
    def count(self) -> int:
        """How many rows."""

    def fingerprint(self) -> str:
        """Equal fingerprints give equal rows."""

    def __iter__(self) -> Iterator[Row]: ...


class GivenRows:
    """Rows in memory."""

    def __init__(self, rows: Iterable[RowLike]) -> None:
        self._rows = list(checked_rows(rows))
        self.name = f"{len(self._rows):,} given rows"
        self.count = len(self._rows)

    def fingerprint(self) -> str:
        """A hash of the rows."""
        digest = hashlib.sha256(b"rows\n")
        for row in self._rows:
            digest.update(f"{row!r}\n".encode())
        return digest.hexdigest()

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)


@dataclass(frozen=True)
class FileRows:
    """Rows of documents in files: the title and the text of each, its id and metadata.

    In tables and XML all is text; a column of metadata in which every value that is not empty is a number is taken as
    numbers, and an empty value as none.

    Attributes:
        collection: where they are; a document without an id is counted.
    """

    collection: Collection

    @property
    def name(self) -> str:
        """What a reader would call it."""
        return self.collection.name

    @property
    def count(self) -> int:
        """How many rows; all files are read and checked for it."""
        return self._seen.count

    @property
    def notes(self) -> ReadingNotes:
        """What the files were recognised as, and what was left out of them."""
        return self._seen.notes

    def fingerprint(self) -> str:
        """A hash of the rows."""
        return self._seen.fingerprint

    def __iter__(self) -> Iterator[Row]:
        numbers = self._seen.numbers
        for _, row in self._raw(ReadingNotes()):
            yield Row(row.text, row.id, {name: _number(value) if name in numbers else value
                                         for name, value in row.metadata.items()})  # fmt: skip

    @cached_property
    def _seen(self) -> _Seen:
        notes, count, digest = ReadingNotes(), 0, hashlib.sha256(b"documents\n")
        numbers = set(self.collection.metadata) if self.collection.is_untyped else set()
        ids: set[str] = set()
        some: set[str] = set()
        infinite: dict[str, str] = {}
        for where, row in self._raw(notes):
            count += 1
            digest.update(f"{row!r}\n".encode())
            if row.id is not None and row.id in ids:
                raise self._twice(row.id, where)
            ids |= {row.id} if row.id is not None else set()
            for name in list(numbers):
                value = row.metadata[name]
                if not isinstance(value, str):
                    continue
                if value.lstrip("+-").lower() in _NO_NUMBERS:
                    infinite.setdefault(name, f"{where}: column {name!r} holds {value} among numbers")
                elif _NUMBER.fullmatch(value):
                    some.add(name)
                else:
                    numbers.discard(name)
        if not count:
            raise UserError(f"{self.name}: no texts in it; give at least one")
        for name, told in infinite.items():
            if name in numbers & some:
                raise UserError(f"{told}; leave the value empty")
        numbers = numbers & some | (numbers - infinite.keys())
        return _Seen(count, frozenset(numbers), digest.hexdigest(), notes)

    def _twice(self, name: str, where: str) -> UserError:
        first = next(before for before, row in self._raw(ReadingNotes()) if row.id == name)
        return UserError(f"{where}: the id {name[:80]!r} is that of {first} too; give every row its own id")

    def _raw(self, notes: ReadingNotes) -> Iterator[tuple[str, Row]]:
        """The rows, each with where it is."""
        for one in self.collection.titled_texts(notes):
            same = one.text[: len(one.title)].casefold() == one.title.casefold()
            text = one.text if same and one.text else f"{one.title}\n{one.text}"
            yield one.where, checked(Row(text, one.name or None, one.metadata), one.where)


@dataclass(frozen=True)
class _Seen:
    """What one reading of all rows tells."""

    count: int
    numbers: frozenset[str]
    fingerprint: str
    notes: ReadingNotes


def _number(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return int(value)
    except ValueError:
        return float(value)
