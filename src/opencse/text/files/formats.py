"""Reads the rows of files: lines of text, tables, JSON, Parquet, XML, and documents as rows of title and text."""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from opencse.environment import require_packages
from opencse.errors import MissingColumnError, UserError, names_listed, nearest, reason, shortened
from opencse.numerals import whole_number
from opencse.text.files.arrow import column_names, column_values
from opencse.text.files.json_files import ABSENT, leaf_names, read_json, value_of
from opencse.text.files.kinds import SECTIONED, SEPARATORS, FileKind, KindName
from opencse.text.files.lines import (
    MAX_GROWTH,
    MAX_RECORD_CHARACTERS,
    UNPACKED_FREELY,
    File,
    path_of,
    read_lines,
    read_objects,
)
from opencse.text.files.sections import read_sections
from opencse.text.files.xml_files import read_xml
from opencse.text.names import UniqueNames

DEFAULT_COLUMNS = (("anchor", "positive", "negative"), ("anchor", "positive"), ("sentence",), ("text",))
Columns = tuple[str, ...]
_BATCH = 1_000
_LOOKED_AT, _CHARACTERS = 100, 1_000_000
"""Largest number of rows, and of characters in them, that are examined to find columns and HTML in them."""
HTML_TAG = re.compile(
    r"</(?:p|div|span|b|i|em|strong|a|li|ul|ol|pre|code|h[1-6]|td|tr|table|blockquote|sub|sup|font|u|body)>"
    r"|<br ?/?>|<p>",
    re.IGNORECASE,
)
_ONE = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a vertical bar"}


class RawRow(NamedTuple):
    """One row of a source, with values that are not checked yet.

    Attributes:
        number: its line from 1 (the first one, if it has several); in parquet and data sets its row from 1.
        document: its document from 0, in running text; 0 elsewhere.
        names: the columns read, for messages.
        values: the values of these columns.
    """

    number: int
    document: int
    names: Columns
    values: tuple[object, ...]


def choose_columns(
    names: Columns | None,
    present: Sequence[str],
    where: File | str,
    *,
    headerless: bool = False,
    texts: Sequence[str] | None = None,
) -> Columns:
    """Chooses the columns to read: ``names``, or the first default set that exists completely.

    ``texts`` are the columns that hold texts, if known; the first ones are the examples in the error message.

    Raises:
        UserError: naming the columns that exist, and the nearest one.
    """
    if names is not None:
        for name in names:
            if name not in present:
                hint = nearest(name, [_short(other) for other in present])
                raise MissingColumnError(f"{where}: no column {name!r}{hint}; {columns_there(present)}")
        return _each_once(names, present, where)
    for default in DEFAULT_COLUMNS:
        matching = [column_like(name, present) for name in default]
        if all(matching):
            return _each_once(tuple(name for name in matching if name), present, where)
    likely = [_short(name) for name in (present if texts is None else texts)]
    example = f", for instance --columns {shlex.quote(likely[0])}" if likely else ""
    if len(likely) > 1:
        example += f", for pairs --columns {shlex.quote(','.join(likely[:2]))}"
    by_position = ", or --columns 1 (or 1,2) by position if the file has no header" if headerless else ""
    raise UserError(
        f"{where}: none of the default columns (sentence; text; anchor, positive; anchor, positive, negative); "
        f"{columns_there(present)}; name yours with --columns{example}{by_position}"
    )


def columns_there(present: Sequence[str]) -> str:
    """The columns, for messages."""
    quoted = any(name.startswith('"') for name in present)
    return f"columns there: {names_listed(present)}" + " (in quotes: add --quoted)" * quoted


def column_like(name: str, present: Sequence[str]) -> str | None:
    """The column of that name, or the only one that differs in letter case alone."""
    if name in present:
        return name
    same = [other for other in present if other.strip().casefold() == name]
    return same[0] if len(same) == 1 else None


def _each_once(names: Columns, present: Sequence[str], where: File | str) -> Columns:
    for name in names:
        if (times := list(present).count(name)) > 1:
            raise UserError(f"{where}: {times} columns are called {name!r}; rename all but one")
    return names


def _short(name: str) -> str:
    return " ".join(str(name).split())[:40]


def read_records(
    file: File, kind: FileKind, columns: Columns | None, *, lenient: bool = False, keep_code: bool = False
) -> Iterator[RawRow]:
    """Reads the rows of a file, with the values of the columns.

    HTML in the cells of a column is converted to text. Documents (`SECTIONED`) have the columns ``_id``, ``title`` and
    ``text``.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from opencse.text.files.kinds import recognise
        >>> path = Path(tempfile.mkdtemp()) / "a.jsonl"
        >>> _ = path.write_text('{"text": "<p>One &amp; two</p>"}')
        >>> next(read_records(path, recognise(path), None)).values
        ('One & two',)

    Args:
        file: what to read.
        kind: what it was recognised as.
        columns: by name (a nested key of an object with dots: ``meta.title``), or by position in a table without
            header; None: the default ones.
        lenient: objects may lack a column; its value is `ABSENT` then.
        keep_code: keep code blocks of HTML and Markdown.

    Raises:
        UserError: naming the file, the line and the fix.
    """
    if kind.name in SECTIONED:
        return _from_objects(file, _section_objects(file, kind, keep_code), columns, lenient, kind)
    if kind.name in OBJECTS:
        records = _from_objects(file, _objects(file, kind, columns or ()), columns, lenient, kind)
    else:
        records = _READERS[kind.name](file, kind, columns)
    return records if kind.name == "text" else without_markup(records, keep_code=keep_code)


def present_columns(file: File, kind: FileKind, columns: Columns = ()) -> Columns:
    """The names of the columns of a file; of objects, the keys of the first hundred, nested keys with dots.

    Args:
        file: what to read.
        kind: what it was recognised as.
        columns: that the user named; see `opencse.text.files.json_files.read_json`.
    """
    if kind.name in SECTIONED:
        return ("_id", "title", "text")
    if kind.name == "text":
        return ("text",)
    if kind.name == "table":
        return next((tuple(cell.strip() for cell in cells) for _, cells in _rows(file, kind) if any(cells)), ())
    if kind.name == "parquet":
        return _parquet_columns(file)
    names: dict[str, None] = {}
    for _, record in islice(_objects(file, kind, columns), _LOOKED_AT):
        names |= dict.fromkeys(leaf_names(record))
    return tuple(names)


def _read_txt(path: File, kind: FileKind, columns: Columns | None) -> Iterator[RawRow]:
    """One sentence per line; blank lines separate documents."""
    if columns is not None:
        raise UserError(f"{path}: has no columns (one text per line); leave out --columns, or give a table or JSON")
    document, begun = 0, False
    for number, line in read_lines(path):
        if line.strip():
            begun = True
            yield RawRow(number, document, ("sentence",), (line,))
        elif begun:
            document, begun = document + 1, False


def _read_table(path: File, kind: FileKind, columns: Columns | None) -> Iterator[RawRow]:
    separator = SEPARATORS.get(kind.separator, repr(kind.separator))
    fix = f"put a text that holds {_ONE.get(kind.separator, repr(kind.separator))} between double quotes"
    if not kind.quoted:
        fix = (
            "tabs separate columns and quotation marks are text; correct the line, or if fields are in double quotes "
            "add --quoted (or save the table as .csv)"
        )
    elif kind.separator != ",":
        fix += f" (columns are separated by {separator})"
    yield from _table(path, columns, _rows(path, kind), fix)


def _rows(path: File, kind: FileKind) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table, each with the number of its first line."""
    lines = ((number, line) for number, line in read_lines(path, records=True) if number >= kind.first_line)
    if not kind.quoted:
        yield from ((number, line.split(kind.separator)) for number, line in lines)
        return
    csv.field_size_limit(max(csv.field_size_limit(), MAX_RECORD_CHARACTERS))  # of the process; 131,072 by default
    reader = csv.reader((line + "\n" for _, line in lines), strict=True, delimiter=kind.separator)
    before = kind.first_line - 1
    begin = before + 1  # first line of the record being read
    try:
        for fields in reader:
            yield begin, fields
            begin = before + reader.line_num + 1
    except csv.Error as error:
        if "end of data" in str(error):  # one is open since the last line with a quote that is not doubled
            begin = max(number for number, line in read_lines(path, records=True) if '"' in line.replace('""', ""))
        fix = "check the double quotes of this row" + ", or leave out --quoted" * (kind.separator == "\t")
        raise UserError(f"{path}, line {begin}: not valid csv ({error}); {fix}") from None


def _table(path: File, columns: Columns | None, rows: Iterator[tuple[int, list[str]]], fix: str) -> Iterator[RawRow]:
    """The records of a table; its first row is the header unless the columns are positions."""
    by_position = columns is not None and all(column.isdecimal() for column in columns)
    names: Columns = ()
    positions: list[int] = []
    first, width = 0, 0
    for number, fields in rows:
        if not any(field.strip() for field in fields):
            continue
        if not first:
            first, width = number, len(fields)
            if columns is not None and by_position:
                names, positions = columns, _positions(columns, width, f"{path}, line {number}")
            else:
                header = [field.strip() for field in fields]
                names = choose_columns(columns, header, path, headerless=True)
                positions = [header.index(name) for name in names]
                continue
        if len(fields) != width:
            raise UserError(
                f"{path}, line {number}: {_columns_in_words(len(fields))}, but line {first} has {width}; {fix}"
            )
        yield RawRow(number, 0, names, tuple(fields[position] for position in positions))


def _positions(columns: Columns, width: int, where: str) -> list[int]:
    positions = [(whole_number(column) or 0) - 1 for column in columns]
    if min(positions) < 0:
        raise UserError(f"{where}: column positions count from 1, not {shortened(','.join(columns))}")
    if max(positions) >= width:
        raise UserError(f"{where}: {_columns_in_words(width)}, but column {max(positions) + 1} is requested")
    return positions


def _columns_in_words(columns: int) -> str:
    return f"{columns} column{'s' if columns > 1 else ''}"


def _from_objects(
    path: File,
    objects: Iterable[tuple[int, Mapping[str, object]]],
    columns: Columns | None,
    lenient: bool,
    kind: FileKind,
) -> Iterator[RawRow]:
    names = columns if lenient else None
    for number, record in objects:
        values = () if names is None else tuple(value_of(record, name) for name in names)
        if names is None or (not lenient and ABSENT in values):
            present = [*dict.fromkeys([*map(str, record), *leaf_names(record)])]
            unit = "line" if kind.name == "jsonl" else "row"
            texts = [name for name in present if isinstance(value_of(record, name), str)]
            names = choose_columns(names or columns, present, f"{path}, {unit} {number}", texts=texts)
            values = tuple(value_of(record, name) for name in names)
        yield RawRow(number, 0, names, values)


def _section_objects(path: File, kind: FileKind, keep_code: bool) -> Iterator[tuple[int, Mapping[str, object]]]:
    names = UniqueNames()
    for number, section in enumerate(read_sections(path, kind, keep_code=keep_code), start=1):
        yield number, {"_id": names.unique(section.name), "title": section.title, "text": "\n".join(section.paragraphs)}


def without_markup(records: Iterator[RawRow], *, keep_code: bool = False) -> Iterator[RawRow]:
    """Converts the columns that hold HTML, judged by their first rows, to text without tags."""
    first: list[RawRow] = []
    characters = 0
    for record in records:
        first.append(record)
        characters += sum(len(value) for value in record.values if isinstance(value, str))
        if len(first) == _LOOKED_AT or characters > _CHARACTERS:
            break
    columns = html_columns(first)
    if not columns:
        yield from first
        yield from records
        return
    from opencse.text.files.markup import text_of_html

    for record in (*first, *records):
        yield record._replace(
            values=tuple(
                text_of_html(value, keep_code=keep_code) if position in columns and isinstance(value, str) else value
                for position, value in enumerate(record.values)
            )
        )


def html_columns(records: Sequence[RawRow]) -> frozenset[int]:
    """The positions of the columns in which at least a fifth of the texts hold HTML."""
    columns: set[int] = set()
    for position in range(len(records[0].values) if records else 0):
        cells = [record.values[position] for record in records if len(record.values) > position]
        texts = [cell for cell in cells if isinstance(cell, str) and cell.strip()]
        if texts and 5 * sum(bool(HTML_TAG.search(text)) for text in texts) >= len(texts):
            columns.add(position)
    return frozenset(columns)


def _read_parquet(path: File, kind: FileKind, columns: Columns | None) -> Iterator[RawRow]:
    require_packages(f"{path}: a Parquet file", "train", "pyarrow")
    import pyarrow
    import pyarrow.parquet

    content = path_of(path)
    number, characters = 0, 0
    most = max(UNPACKED_FREELY, MAX_GROWTH * content.stat().st_size)
    try:
        with pyarrow.parquet.ParquetFile(content) as file:
            names = choose_columns(columns, column_names(file.schema_arrow, complete=True), path)
            for batch in file.iter_batches(batch_size=_BATCH, columns=list(names)):
                read = [column_values(batch, name, path, number) for name in names]
                for values in zip(*read, strict=True):
                    number += 1
                    characters += sum(len(value) for value in values if isinstance(value, str))
                    if characters > most:
                        raise UserError(
                            f"{path}, row {number}: unpacks to more than {MAX_GROWTH} times the file's size, which "
                            "text hardly does; drop repeated rows, or give a text file"
                        )
                    yield RawRow(number, 0, names, values)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"{path}, after row {number}: damaged or not a parquet file ({reason(error)}); fetch it or write it again"
        ) from None


def _parquet_columns(path: File) -> Columns:
    require_packages(f"{path}: a Parquet file", "train", "pyarrow")
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path_of(path)) as file:
            return column_names(file.schema_arrow)
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(
            f"{path}, after row 0: damaged or not a parquet file ({reason(error)}); fetch it or write it again"
        ) from None


Objects = Iterator[tuple[int, Mapping[str, object]]]
OBJECTS: dict[KindName, Callable[[File], Objects]] = {
    "jsonl": read_objects,
    "json": read_json,
    "xml": read_xml,
}


def _objects(file: File, kind: FileKind, columns: Columns) -> Objects:
    return read_json(file, columns) if kind.name == "json" else OBJECTS[kind.name](file)


_READERS: dict[KindName, Callable[[File, FileKind, Columns | None], Iterator[RawRow]]] = {
    "text": _read_txt,
    "table": _read_table,
    "parquet": _read_parquet,
}
