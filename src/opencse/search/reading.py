"""Rows of an index from files: text, id and metadata by the names of their columns."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from opencse.errors import UserError
from opencse.search.rows import Ids, Row, RowLike, checked, checked_rows
from opencse.text.readers import Source

_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d+)?([eE][+-]?\d{1,3})?")
_NO_NUMBERS = ("nan", "inf", "infinity")
_WITHOUT_TYPES = (".csv", ".tsv")


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
    """Rows of a file or a Hub data set.

    In csv and tsv all is text; a column of metadata in which every value that is not empty is a number is taken as
    numbers, and an empty value as none.

    Attributes:
        source: where they are; its columns are the text, joined by a space where there are several.
        id: the column that names a row; None: rows are counted.
        metadata: columns that are kept.
    """

    source: Source
    id: str | None = None
    metadata: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What a reader would call it."""
        return self.source.name

    @property
    def count(self) -> int:
        """How many rows; the whole file is read and checked for it."""
        return self._seen[0]

    def fingerprint(self) -> str:
        """A hash of the content and of how it is read."""
        return hashlib.sha256(
            repr((self.source.fingerprint(), self._text, self.id, self.metadata)).encode()
        ).hexdigest()

    def __iter__(self) -> Iterator[Row]:
        numbers = self._seen[1]
        for _, row in self._raw():
            yield Row(row.text, row.id, {name: _number(value) if name in numbers else value
                                         for name, value in row.metadata.items()})  # fmt: skip

    @cached_property
    def _text(self) -> tuple[str, ...]:
        if self.source.columns is not None:
            return self.source.columns
        for record in self.source.records(None):
            return record.names[:1]
        raise _nothing(self.name)

    @cached_property
    def _seen(self) -> tuple[int, frozenset[str]]:
        """Rows, and the columns that hold numbers as text."""
        count, numbers = 0, set(self.metadata) if self.source.suffix in _WITHOUT_TYPES else set()
        ids = Ids(f"{self.name.replace('{', '{{').replace('}', '}}')}, {self.source.unit} {{}}")
        some: set[str] = set()
        infinite: dict[str, str] = {}
        for number, row in self._raw():
            count += 1
            ids.add(row.id, number)
            for name in list(numbers):
                value = row.metadata[name]
                if not isinstance(value, str):
                    continue
                if value.lstrip("+-").lower() in _NO_NUMBERS:
                    where = f"{self.name}, {self.source.unit} {number}"
                    infinite.setdefault(name, f"{where}: column {name!r} holds {value} among numbers")
                elif _NUMBER.fullmatch(value):
                    some.add(name)
                else:
                    numbers.discard(name)
        if not count:
            raise _nothing(self.name)
        for name, told in infinite.items():
            if name in numbers & some:
                raise UserError(f"{told}; leave the value empty")
        return count, frozenset(numbers & some | (numbers - infinite.keys()))

    def _raw(self) -> Iterator[tuple[int, Row]]:
        plain = self.id is None and not self.metadata
        names = (*self._text, *(() if self.id is None else (self.id,)), *self.metadata)
        without_types = self.source.suffix in _WITHOUT_TYPES
        for record in self.source.records(None if plain and self.source.columns is None else names):
            where = f"{self.name}, {self.source.unit} {record.number}"
            values: Mapping[str, object] = dict(zip(record.names, record.values, strict=True))
            texts = [values[name] for name in self._text]
            for name, text in zip(self._text, texts, strict=True):
                if text is not None and not isinstance(text, str):
                    raise UserError(f"{where}: column {name!r} holds {type(text).__name__}, not text")
            own = None if self.id is None else values[self.id]
            if self.id is not None and (isinstance(own, bool) or not isinstance(own, str | int)):
                raise UserError(
                    f"{where}: the id in column {self.id!r} is {type(own).__name__}; give a text or a number"
                )
            kept = {name: values[name] for name in self.metadata}
            if without_types:
                kept = {
                    name: (value.strip() or None) if isinstance(value, str) else value for name, value in kept.items()
                }
            text = " ".join(text.strip() for text in texts if isinstance(text, str) and text.strip())
            yield record.number, checked(Row(text, None if own is None else str(own), kept), where)


def _number(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return int(value)
    except ValueError:
        return float(value)


def _nothing(name: str) -> UserError:
    return UserError(f"{name}: no texts in it; give at least one")
