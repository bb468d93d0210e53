"""Reads the rows of an index from files or from memory, as often as needed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, Unpack

from opencse.errors import MissingColumnError, UserError
from opencse.numerals import number_of
from opencse.search.result import IndexInfo
from opencse.search.rows import IndexRow, RowLike, checked, checked_rows
from opencse.text.documents import Collection
from opencse.text.files.kinds import HowRead, how_read
from opencse.text.names import id_after
from opencse.text.readers import Source
from opencse.text.reading_notes import ReadingNotes

_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d+)?([eE][+-]?\d{1,3})?")
_NO_NUMBERS = ("nan", "inf", "infinity")


class RowSource(Protocol):
    """Rows that can be read several times."""

    @property
    def name(self) -> str:
        """Names the source in messages."""

    @property
    def count(self) -> int:
        """Number of rows."""

    @property
    def next_id(self) -> int:
        """A number above each that is the id of a row; rows without an id are numbered from it."""

    @property
    def notes(self) -> ReadingNotes:
        """The recognised types of files, and what was skipped in them."""

    @property
    def reading(self) -> Mapping[str, Any]:
        """How its files are read, as fields of the index's manifest."""

    def fingerprint(self) -> str:
        """A hash of the rows; sources with equal fingerprints have equal rows."""

    def __iter__(self) -> Iterator[IndexRow]: ...


class MemoryRows:
    """Rows from memory.

    Example:
        >>> rows = MemoryRows(["A cat sleeps.", {"text": "Rain falls.", "id": "r"}])
        >>> rows.count, [row.id for row in rows]
        (2, [None, 'r'])
    """

    def __init__(self, rows: Iterable[RowLike]) -> None:
        self._rows = list(checked_rows(rows))
        self.name = number_of(len(self._rows), "row")
        self.count = len(self._rows)
        self.next_id = max((id_after(row.id or "") for row in self._rows), default=0)
        self.notes = ReadingNotes()
        self.reading: dict[str, Any] = {}

    def fingerprint(self) -> str:
        """See `RowSource`."""
        digest = hashlib.sha256(b"rows\n")
        for row in self._rows:
            digest.update(_hashed(row))
        return digest.hexdigest()

    def __iter__(self) -> Iterator[IndexRow]:
        return iter(self._rows)


@dataclass(frozen=True)
class FileRows:
    """Rows from documents in files: the title and text of each, its id and metadata.

    Values in tables and XML are text; a column of metadata in which each of them is a number or empty becomes numbers,
    and an empty value becomes None. Other values keep their type.

    Attributes:
        collection: the files; documents without an id are numbered.
        column_kinds: kinds of the columns that an index has, to which the rows are added: a column of text stays text,
            and one of numbers takes nothing else.
    """

    collection: Collection
    column_kinds: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Names the source in messages."""
        return self.collection.name

    @property
    def count(self) -> int:
        """Number of rows; the first call reads and checks all files."""
        return self._survey.count

    @property
    def next_id(self) -> int:
        """See `RowSource`."""
        return self._survey.next_id

    @property
    def notes(self) -> ReadingNotes:
        """See `RowSource`."""
        return self._survey.notes

    @property
    def reading(self) -> Mapping[str, Any]:
        """See `RowSource`."""
        return {"fields": self.collection.fields, "ids": self.collection.ids, **self.collection.how}

    def fingerprint(self) -> str:
        """See `RowSource`."""
        return self._survey.fingerprint

    def __iter__(self) -> Iterator[IndexRow]:
        numbers = self._survey.numbers
        for _, row, is_untyped in self._raw(ReadingNotes()):
            yield IndexRow(row.text, row.id, {name: _number(value) if is_untyped and name in numbers else value
                                         for name, value in row.metadata.items()})  # fmt: skip

    @cached_property
    def _survey(self) -> _Survey:
        notes, count, digest = ReadingNotes(), 0, hashlib.sha256(b"documents\n")
        numbers = {name for name in self.collection.metadata if self.column_kinds.get(name) != "text"}
        ids: set[str] = set()
        with_numbers: set[str] = set()
        infinite: dict[str, str] = {}
        for where, row, is_untyped in self._raw(notes):
            count += 1
            digest.update(_hashed(row))
            if row.id is not None and row.id in ids:
                raise self._repeated_id_error(row.id, where)
            ids |= {row.id} if row.id is not None else set()
            for name in list(numbers) if is_untyped else ():
                value = row.metadata[name]
                if not isinstance(value, str):
                    continue
                if self.column_kinds.get(name) == "number" and not _NUMBER.fullmatch(value):
                    raise UserError(
                        f"{where}: column {name!r} holds {value[:80]!r}, and the index has numbers there; leave the "
                        "value empty"
                    )
                if value.lstrip("+-").lower() in _NO_NUMBERS:
                    infinite.setdefault(name, f"{where}: column {name!r} holds {value} among numbers")
                elif _NUMBER.fullmatch(value):
                    with_numbers.add(name)
                else:
                    numbers.discard(name)
        if not count:
            raise UserError(notes.nothing_message(self.name))
        for name, message in infinite.items():
            if name in numbers & with_numbers:
                raise UserError(f"{message}; leave the value empty")
        numbers = numbers & with_numbers | (numbers - infinite.keys())
        next_id = max(map(id_after, ids), default=0)
        return _Survey(count, next_id, frozenset(numbers), digest.hexdigest(), notes)

    def _repeated_id_error(self, name: str, where: str) -> UserError:
        first = next(earlier for earlier, row, _ in self._raw(ReadingNotes()) if row.id == name)
        return UserError(f"{where}: the id {name[:80]!r} is also that of {first}; give each row its own id")

    def _raw(self, notes: ReadingNotes) -> Iterator[tuple[str, IndexRow, bool]]:
        """The rows, each with its file and line, and whether its metadata are texts, even numbers."""
        for document in self.collection.titled_texts(notes):
            title, text, where = document.title, document.text, document.where
            begins_with_title = text[: len(title)].casefold() == title.casefold()
            if not (begins_with_title and text):
                text = f"{title}\n{text}"
            row = checked(IndexRow(text, document.name or None, document.metadata), where)
            yield where, row, document.is_untyped


def open_rows(
    text: str | Path | Source | Sequence[RowLike],
    *,
    fields: Sequence[str] | None = None,
    ids: str | None = None,
    metadata: Sequence[str] = (),
    split: str | None = None,
    added_to: IndexInfo | None = None,
    **how: Unpack[HowRead],
) -> RowSource:
    """Opens the rows of a text, and reads and checks all of them once.

    Args:
        text: see `opencse.build_index`, as for the other arguments.
        fields: of the title and text.
        ids: column of the ids.
        metadata: columns to store.
        split: of a data set.
        added_to: the index that the rows are added to. Without ``fields`` and ``ids`` they are read with those that it
            was built with, and without ``metadata`` its columns are stored where a file has them.
        **how: see `opencse.text.files.kinds.Reading`.

    Raises:
        UserError: for a text without rows, invalid rows, or options that do not apply to it.
    """
    if isinstance(text, Source):
        if fields is not None or split is not None or any(how.values()):
            raise UserError("a Source has its own fields, split, keep_code, ...; leave options out")
        collection = Collection(
            text.location,
            text.columns,
            ids,
            split=text.split or "train",
            skip_lines=text.skip_lines,
            **text.how,
        )
    elif isinstance(text, str | Path):
        names = None if fields is None else tuple(fields)
        collection = Collection(str(text), names, ids, split=split or "train", **how)
    else:
        if fields is not None or split is not None or ids is not None or metadata or any(how.values()):
            raise UserError(
                "options of files (fields, ids, metadata, split, ...) need a file; give rows as mappings instead"
            )
        memory = MemoryRows(text)
        if not memory.count:
            raise UserError("text: the list is empty; give at least one text")
        return memory
    columns = tuple(metadata) or (() if added_to is None else tuple(added_to.columns))
    collection = replace(collection, metadata=columns, metadata_is_optional=not metadata)
    kinds = {} if added_to is None else added_to.columns
    if added_to is None or collection.fields is not None or ids is not None:
        return _read(FileRows(collection, kinds))
    names = None if added_to.fields is None else tuple(added_to.fields)
    either = how_read({name: given or getattr(added_to, name) for name, given in collection.how.items()})
    collection = replace(collection, fields=names, ids=added_to.ids, fields_are_optional=True, **either)
    try:
        return _read(FileRows(collection, kinds))
    except MissingColumnError as error:
        if names is None and added_to.ids is None:
            raise
        fix = "name those of this text with --fields, and with --id if it has ids"
        raise UserError(f"{error}; {added_to.folder} was built with {added_to.reading}: {fix}") from None


def _read(rows: FileRows) -> FileRows:
    _ = rows.count  # reads and checks all files
    return rows


@dataclass(frozen=True)
class _Survey:
    """The result of reading all rows once."""

    count: int
    next_id: int
    numbers: frozenset[str]
    fingerprint: str
    notes: ReadingNotes


def _hashed(row: IndexRow) -> bytes:
    """What the fingerprint is computed from; it must not change, or older interrupted builds could not continue."""
    return f"Row(text={row.text!r}, id={row.id!r}, metadata={row.metadata!r})\n".encode()


def _number(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return int(value)
    except ValueError:
        return float(value)
