"""Reads the rows of files: lines of text, tables, JSON, Parquet, XML, and documents as rows of title and text."""

from __future__ import annotations

import csv
import json
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from opencse.environment import require_packages
from opencse.errors import MissingColumnError, UserError, explaining, names_listed, nearest, reason, shortened
from opencse.numerals import whole_number
from opencse.text.files.dumps import mail_sections, mailbox_sections, read_xml, subtitle_sections, wikipedia_sections
from opencse.text.files.kinds import SECTIONED, SEPARATORS, FileKind, KindName
from opencse.text.files.lines import File, Spooled, path_of, read_lines, read_objects, read_text
from opencse.text.files.markup import html_sections, text_of_html
from opencse.text.files.pages import docx_sections, epub_sections, page_sections, pdf_sections
from opencse.text.files.prose import Section, UniqueNames, join_lines, markdown_sections, rst_sections

if TYPE_CHECKING:
    from pyarrow import Field, RecordBatch, Table
    from pyarrow.parquet import ParquetFile

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
NO_VALUES = frozenset(
    ("#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL",
     "NaN", "None", "n/a", "nan", "null")
)  # fmt: skip
"""Cells of a table that are empty, as pandas reads them."""
_DEPTH = 4
_USUAL = ("text", "sentence", "title", "anchor", "positive", "negative", "query", "question", "answer", "_id", "id")
"""Keys of a record, by which an object of texts is distinguished from texts by id."""
_ONE = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a vertical bar"}


class Absent(Enum):
    """The value of a column that an object lacks, where columns may be missing."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


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
    if kind.name == "text":
        return _read_txt(file, columns)
    if kind.name == "table":
        records = _read_table(file, kind, columns)
    elif kind.name == "parquet":
        records = _read_parquet(file, columns)
    else:
        records = _from_objects(file, _objects(file, kind, columns or ()), columns, lenient, kind)
    return without_markup(records, keep_code=keep_code)


def present_columns(file: File, kind: FileKind, columns: Columns) -> Columns:
    """The names of the columns of a file; of objects, the keys of the first hundred, nested keys with dots.

    Args:
        file: what to read.
        kind: what it was recognised as.
        columns: that the user named; see `read_json`.
    """
    if kind.name in SECTIONED:
        return ("_id", "title", "text")
    if kind.name == "text":
        return ("text",)
    if kind.name == "table":
        return next(_named_rows(file, kind))[1]
    if kind.name == "parquet":
        with _parquet(file) as table:
            return leaves(arrow_names(table.schema_arrow))
    names: dict[str, None] = {}
    for _, record in islice(_objects(file, kind, columns), _LOOKED_AT):
        names |= dict.fromkeys(leaf_names(record))
    return leaves(names)


def leaves(names: Iterable[str]) -> Columns:
    """The names that are no objects with fields of their own."""
    names = tuple(names)
    return tuple(name for name in names if not any(other.startswith(f"{name}.") for other in names))


def _read_txt(path: File, columns: Columns | None) -> Iterator[RawRow]:
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


def _named_rows(path: File, kind: FileKind, *, named: bool = True) -> Iterator[tuple[int, Columns]]:
    """The rows of a table that hold anything, white space around the names of columns dropped, the header first.

    With tabs, a header that is one shorter than the first row lacks the name of the first column, as R writes names of
    rows. With commas, a field too many is more often a text with a comma that is not in quotes.
    """
    rows = ((number, tuple(fields)) for number, fields in _rows(path, kind) if any(map(str.strip, fields)))
    number, header = next(rows, (0, ()))
    second = list(islice(rows, 1))
    is_longer = len(header) > 1 and len(second) == 1 and len(second[0][1]) == len(header) + 1
    lacks_one = named and kind.separator == "\t" and is_longer
    yield number, (*([""] * lacks_one), *(name.strip() for name in header))
    yield from chain(second, rows)


def _read_table(path: File, kind: FileKind, columns: Columns | None) -> Iterator[RawRow]:
    """The records of a table; its first row is the header unless the columns are positions."""
    by_position = columns is not None and all(column.isdecimal() for column in columns)
    rows = _named_rows(path, kind, named=not by_position)
    first, header = next(rows)
    if not header:
        return
    if columns is not None and by_position:
        names, positions = columns, _positions(columns, len(header), f"{path}, line {first}")
        rows = chain([(first, header)], rows)
    else:
        names = choose_columns(columns, header, path, headerless=True)
        positions = [header.index(name) for name in names]
    for number, fields in rows:
        if len(fields) != len(header):
            counts = f"{_columns_in_words(len(fields))}, but line {first} has {len(header)}"
            raise UserError(f"{path}, line {number}: {counts}; {_how_to_separate(kind)}")
        cells = (fields[position] for position in positions)
        yield RawRow(number, 0, names, tuple(None if cell.strip() in NO_VALUES else cell for cell in cells))


def _how_to_separate(kind: FileKind) -> str:
    if not kind.quoted:
        return (
            "tabs separate columns and quotation marks are text; correct the line, or if fields are in double quotes "
            "add --quoted (or save the table as .csv)"
        )
    fix = f"put a text that holds {_ONE.get(kind.separator, repr(kind.separator))} between double quotes"
    separator = SEPARATORS.get(kind.separator, repr(kind.separator))
    return fix + (f" (columns are separated by {separator})" if kind.separator != "," else "")


def _rows(path: File, kind: FileKind) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table, each with the number of its first line."""
    lines = ((number, line) for number, line in read_lines(path, records=True) if number >= kind.first_line)
    if not kind.quoted:
        yield from ((number, line.split(kind.separator)) for number, line in lines)
        return
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


def without_markup(records: Iterator[RawRow], *, keep_code: bool) -> Iterator[RawRow]:
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


@contextmanager
def _parquet(path: File) -> Iterator[ParquetFile]:
    require_packages(f"{path}: a Parquet file", "train", "pyarrow")
    import pyarrow
    import pyarrow.parquet

    with (
        explaining(
            f"{path}: damaged or not a parquet file", pyarrow.ArrowException, OSError, fix="fetch it or write it again"
        ),
        pyarrow.parquet.ParquetFile(path_of(path)) as file,
    ):
        yield file


def _read_parquet(path: File, columns: Columns | None) -> Iterator[RawRow]:
    with _parquet(path) as file:
        schema = file.schema_arrow
        names = choose_columns(columns, arrow_names(schema), path)
        batches = file.iter_batches(batch_size=_BATCH, columns=arrow_columns(names, schema))
        yield from arrow_rows(batches, names, path)


def arrow_names(fields: Iterable[Field]) -> Columns:
    """The names of the columns of an Arrow table, and of the fields of structs, which follow a dot as in JSON.

    Example:
        >>> import pyarrow
        >>> rows = [{"id": 1, "meta": {"title": "A", "by": {"name": "B"}}}]
        >>> arrow_names(pyarrow.Table.from_pylist(rows).schema)
        ('id', 'meta', 'meta.title', 'meta.by', 'meta.by.name')
    """
    names: list[str] = []
    for field in fields:
        inner = arrow_names(field.type) if hasattr(field.type, "get_field_index") else ()
        names += [field.name, *(f"{field.name}.{name}" for name in inner)]
    return tuple(names)


def arrow_columns(names: Columns, fields: Iterable[Field]) -> list[str]:
    """The columns of an Arrow table that hold the columns or fields of these names."""
    return [one.name for one in fields if any(f"{name}.".startswith(f"{one.name}.") for name in names)]


def arrow_rows(batches: Iterable[RecordBatch | Table], names: Columns, where: File | str) -> Iterator[RawRow]:
    """The rows of Arrow tables; a field of a struct that is null is None."""
    number = 0
    for batch in batches:
        try:
            records = batch.to_pylist()
        except UnicodeDecodeError as error:
            raise UserError(
                f"{where}, after row {number}: not UTF-8 text (byte 0x{error.object[error.start]:02x}); write it again "
                "in UTF-8"
            ) from None
        for record in records:
            number += 1
            values = (value_of(record, name) for name in names)
            yield RawRow(number, 0, names, tuple(None if value is ABSENT else value for value in values))


Objects = Iterator[tuple[int, Mapping[str, object]]]
OBJECTS: dict[KindName, Callable[[File], Objects]] = {"jsonl": read_objects, "xml": read_xml}
"""Kinds of files that hold objects; and JSON."""


def _objects(file: File, kind: FileKind, columns: Columns) -> Objects:
    return read_json(file, columns) if kind.name == "json" else OBJECTS[kind.name](file)


def leaf_names(record: Mapping[str, object], depth: int = 4) -> list[str]:
    """The keys of an object; keys of nested objects follow a dot: ``meta.title``.

    >>> leaf_names({"id": 1, "meta": {"title": "A"}})
    ['id', 'meta.title']
    """
    names: list[str] = []
    for key, value in record.items():
        inner = leaf_names(value, depth - 1) if isinstance(value, Mapping) and depth else []
        names += [f"{key}.{name}" for name in inner] or [str(key)]
    return names


def value_of(record: Mapping[str, object], name: str) -> object:
    """The value of a key, or of a nested key with dots; `ABSENT` if it does not exist."""
    if name in record:
        return record[name]
    for dot in re.finditer(r"\.", name):
        inner = record.get(name[: dot.start()])
        if isinstance(inner, Mapping) and (value := value_of(inner, name[dot.end() :])) is not ABSENT:
            return value
    return ABSENT


def read_json(file: File, columns: Collection[str] = ()) -> Objects:
    """Reads objects, numbered from 1.

    They are the elements of an array; else the longest list of objects inside an object (``{"data": [...]}``), or its
    values where they are all objects or all texts (their keys become ``_id``), or the object itself where it has
    neither. A text is an object with ``text``. An object of texts is one record, and not texts by id, where one of its
    keys is a usual name of a column (``text``, ``title``, ...) or is named. A file of several values has one per line.

    Args:
        file: what to read.
        columns: that the user named.

    Raises:
        UserError: for what is not valid JSON, or an element that is neither an object nor a text.
    """
    try:
        value = json.loads(read_text(file))
    except RecursionError as error:
        raise UserError(f"{file}: not valid JSON ({reason(error)}); correct it, or write it again") from None
    except json.JSONDecodeError as error:
        if error.msg == "Extra data" and error.doc[: error.pos].strip().count("\n") == 0:
            yield from read_objects(file)
            return
        raise UserError(
            f"{file}, line {error.lineno}: not valid JSON ({error.msg}); correct it, or write it again"
        ) from None
    number = 0
    for number, one in enumerate(value if isinstance(value, list) else _inside(value, columns), start=1):
        record = {"text": one} if isinstance(one, str) else one
        if not isinstance(record, dict):
            raise UserError(f"{file}, row {number}: an object or a text is expected, not {type(one).__name__}")
        yield number, record
    if not number:
        raise UserError(f"{file}: holds no objects; a JSON array of objects with a text each is expected")


def _inside(value: object, columns: Collection[str]) -> Sequence[object]:
    """The records of an object."""
    best = max(_lists(value, _DEPTH), key=len, default=[])
    if best and 2 * len(json.dumps(best)) > len(json.dumps(value)):  # else it may be the authors of one document
        return best
    if isinstance(value, dict) and value and all(isinstance(one, dict) for one in value.values()):
        return [{"_id": key, **one} for key, one in value.items()]
    if isinstance(value, dict) and value and all(isinstance(one, str) for one in value.values()):
        is_record = any(key in columns or key.casefold() in _USUAL for key in value)
        return [value] if is_record else [{"_id": key, "text": text} for key, text in value.items()]
    return [value]


def _lists(value: object, depth: int) -> Iterator[list[object]]:
    """The lists of objects inside an object."""
    for one in value.values() if isinstance(value, dict) and depth else ():
        if isinstance(one, list) and one and all(isinstance(element, dict) for element in one):
            yield one
        yield from _lists(one, depth - 1)


def read_sections(file: File, kind: FileKind, *, name: str | None = None, keep_code: bool = False) -> Iterator[Section]:
    r"""Reads the sections of one file, by the reader of its kind.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> path = Path(tempfile.mkdtemp()) / "a.md"
        >>> _ = path.write_text("# Valves\n\nClose it slowly.\n")
        >>> [(section.name, section.title, section.paragraphs) for section in read_sections(path, FileKind("markdown"))]
        [('a.md#valves', 'Valves', ('Close it slowly.',))]

    Args:
        file: of a kind in `opencse.text.files.kinds.SECTIONED`, or lines of text.
        kind: what it was recognised as.
        name: used in the names of sections; by default the name of the file.
        keep_code: keep code blocks.

    Raises:
        UserError: naming the file, the line or page, and the fix.
    """
    if name is None:
        name = file.name if isinstance(file, Spooled) else path_of(file).name
    match kind.name:
        case "text":
            paragraphs = tuple(join_lines(line for _, line in read_lines(file)))
            if paragraphs:
                yield Section(name, "", paragraphs)
        case "markdown":
            yield from markdown_sections(read_text(file) + "\n", name, keep_code=keep_code)
        case "rst":
            yield from rst_sections(read_text(file), name, keep_code=keep_code)
        case "html":
            yield from html_sections(read_text(file), name, keep_code=keep_code)
        case "pages":
            yield from page_sections(read_text(file).split("\f"), name)
        case "docx":
            yield from docx_sections(file, name, keep_code=keep_code)
        case "epub":
            yield from epub_sections(file, name, keep_code=keep_code)
        case "pdf":
            yield from pdf_sections(file, name)
        case "subtitles":
            yield from subtitle_sections(file, name)
        case "mail":
            yield from mail_sections(file, name)
        case "mbox":
            yield from mailbox_sections(file, name)
        case _:
            yield from wikipedia_sections(file)
