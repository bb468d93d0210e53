"""Rows of an index (a text with an id and metadata), read from files or from memory as often as needed."""

from __future__ import annotations

import datetime
import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, Unpack
from urllib.parse import quote

from opencse.errors import MissingColumnError, UserError, shortened
from opencse.numerals import number_of
from opencse.search.result import IndexInfo
from opencse.text.documents import Collection, id_after
from opencse.text.files.kinds import HowRead, how_read
from opencse.text.folders import ReadingNotes
from opencse.text.readers import Source
from opencse.text.scripts import is_unicode, normalised
from opencse.text.values import is_list, is_missing, require_filled

Value = str | int | float | None
"""A value of metadata; booleans are stored as 0 and 1, dates as ISO text."""
# At most 18 digits: SQLite's whole numbers have 64 bits.
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d+)?([eE][+-]?\d{1,3})?")
_SAME = 0.5
"""Share of words from which two texts count as the same one."""
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


def checked_rows(rows: Iterable[RowLike]) -> Iterator[IndexRow]:
    """Converts each row to an `IndexRow` whose values can be stored; nan and NaT of pandas are empty values.

    Example:
        >>> [row.id for row in checked_rows(["A cat.", {"text": "A dog.", "id": 7}])]
        [None, '7']

    Raises:
        TypeError: for an object that is not a row.
        UserError: for an empty text or id, an id that occurs twice, or a value that cannot be stored, naming the row.
    """
    if isinstance(rows, str) or not is_list(rows):
        table = "; of a table give its rows, as to_dict('records') of pandas does" if hasattr(rows, "columns") else ""
        raise TypeError(f"rows is a list of texts or rows, not {type(rows).__name__}{table}")
    ids: dict[str, int] = {}
    for number, item in enumerate(rows):
        row = _row(item, f"rows[{number}]")
        values = {name: None if is_missing(value) else value for name, value in row.metadata.items()}
        row = checked(replace(row, metadata=values), f"rows[{number}]")
        if row.id is not None and (before := ids.setdefault(row.id, number)) != number:
            raise UserError(
                f"rows[{number}]: the id {row.id[:80]!r} is also that of rows[{before}]; give each row its own id"
            )
        yield row


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
    # Before int, which a bool is too.
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
        for where, row, is_untyped in self._raw(notes):
            count += 1
            digest.update(_hashed(row))
            if row.id is not None and row.id in ids:
                first = next(earlier for earlier, one, _ in self._raw(ReadingNotes()) if one.id == row.id)
                raise UserError(f"{where}: the id {row.id[:80]!r} is also that of {first}; give each row its own id")
            ids |= {row.id} if row.id is not None else set()
            for name in list(numbers) if is_untyped else ():
                value = row.metadata[name]
                if isinstance(value, str) and not (_NUMBER.fullmatch(value) and math.isfinite(float(value))):
                    numbers.discard(name)
                    if self.column_kinds.get(name) == "number":
                        raise UserError(
                            f"{where}: column {name!r} holds {value[:80]!r}, and the index has numbers there; leave "
                            "the value empty"
                        )
        if not count:
            raise UserError(notes.nothing_message(self.name))
        return _Survey(count, max(map(id_after, ids), default=0), frozenset(numbers), digest.hexdigest(), notes)

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
        fields: the fields of the title and text.
        ids: column of the ids.
        metadata: columns to store.
        split: the split of a data set.
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


def require_same_texts(
    folder: str | Path, data: str, judged: Mapping[str, str], rows: Iterable[tuple[str, str]]
) -> None:
    """Refuses judgements whose ids belong to other texts in the index, as row numbers of another file are.

    Two texts are the same if the shorter one shares half of its words with the other: a title in one of them alone, or
    an index that keeps the beginning of a text, changes nothing.

    Args:
        folder: the folder of the index, for messages.
        data: name of the data set, for messages.
        judged: the relevant documents by id, as the data set has them.
        rows: id and text of rows of the index; a document may have several, and ids may be missing in ``judged``.

    Example:
        >>> require_same_texts("notes", "labels", {"1": "Snow fell."}, [("1", "Weather"), ("1", "Snow fell.")])
        >>> try:
        ...     require_same_texts("notes", "labels", {"1": "Snow fell."}, [("1", "The kettle boils.")])
        ... except UserError as error:
        ...     print(f"{str(error)[:100]} ...")
        notes: 1 of 1 relevant documents of labels are other texts in this index ('1' is 'Snow fell.' there, ...

    Raises:
        UserError: where more than half of the relevant documents are other texts in the index.
    """
    texts: dict[str, str] = {}
    for name, text in rows:
        if judged.get(name):
            texts[name] = f"{texts.get(name, '')} {text}"
    others = [name for name, text in texts.items() if _shared_words(judged[name], text) < _SAME]
    if len(others) > len(texts) / 2:
        name = others[0]
        raise UserError(
            f"{folder}: {len(others):,} of {len(texts):,} relevant documents of {data} are other texts in this index "
            f"({name[:40]!r} is {shortened(judged[name])!r} there, here {shortened(texts[name].strip())!r}); build the "
            "index from the data's corpus.jsonl, or from documents with the ids of the judgements (opencse index build "
            "--id)"
        )


def _shared_words(text: str, other: str) -> float:
    """Share of the different words of the text with fewer of them that are in the other one too."""
    one, two = set(normalised(text).split()), set(normalised(other).split())
    return len(one & two) / max(1, min(len(one), len(two)))
