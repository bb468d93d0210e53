"""Files of sentences, pairs and triples: what stands in a txt, csv, tsv, jsonl or parquet file, row by row."""

from __future__ import annotations

import csv
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from opencse.environment import require_packages
from opencse.errors import MissingColumnError, UserError, nearest, reason, shortened
from opencse.numerals import whole_number
from opencse.text.lines import MAX_GROWTH, MAX_RECORD_CHARACTERS, UNPACKED_FREELY, File, read_lines, read_objects
from opencse.text.pipes import Spooled

if TYPE_CHECKING:
    from pyarrow import Array, ChunkedArray

DEFAULT_COLUMNS = (("anchor", "positive", "negative"), ("anchor", "positive"), ("sentence",), ("text",))
Columns = tuple[str, ...]
_BATCH = 1_000


class Record(NamedTuple):
    """One row as it stands in its source; the values are not checked yet.

    Attributes:
        number: its line from 1 (the first one, if it has several); in parquet and data sets its row from 1.
        document: its document from 0, in running text; 0 elsewhere.
        names: the columns read, for messages.
        values: what stands in them.
    """

    number: int
    document: int
    names: Columns
    values: tuple[object, ...]


def choose_columns(
    wanted: Columns | None, present: Sequence[str], where: File | str, *, headerless: bool = False
) -> Columns:
    """The columns to read: those asked for, or the first default set that is there in full.

    Raises:
        UserError: naming the columns there are, and the nearest one.
    """
    there = ", ".join(_short(name) for name in present) or "none"
    if wanted is not None:
        for name in wanted:
            if name not in present:
                hint = nearest(name, [_short(other) for other in present])
                raise MissingColumnError(f"{where}: no column {name!r}{hint}; columns there: {there}")
        return _each_once(wanted, present, where)
    for names in DEFAULT_COLUMNS:
        if all(name in present for name in names):
            return _each_once(names, present, where)
    example = f", for instance --columns {shlex.quote(_short(present[0]))}" if present else ""
    if len(present) == 1 and ";" in present[0]:
        example += " (are columns separated by semicolons? commas, or tabs in a .tsv, are read)"
    by_position = ", or --columns 1 (or 1,2) by position if the file has no header" if headerless else ""
    raise UserError(
        f"{where}: none of the default columns (sentence; text; anchor, positive; anchor, positive, negative); "
        f"columns there: {there}; name yours with --columns{example}{by_position}"
    )


def _each_once(names: Columns, present: Sequence[str], where: File | str) -> Columns:
    for name in names:
        if (times := list(present).count(name)) > 1:
            raise UserError(f"{where}: {times} columns are called {name!r}; rename all but one")
    return names


def _short(name: str) -> str:
    return " ".join(str(name).split())[:40]


def _read_txt(path: File, columns: Columns | None) -> Iterator[Record]:
    """One sentence a line; blank lines separate documents."""
    if columns is not None:
        raise UserError(
            f"{path}: a .txt file has no columns; drop --columns, or give a csv, tsv, jsonl or parquet file"
        )
    document, begun = 0, False
    for number, line in read_lines(path):
        if line.strip():
            begun = True
            yield Record(number, document, ("sentence",), (line,))
        elif begun:
            document, begun = document + 1, False


def _read_csv(path: File, columns: Columns | None) -> Iterator[Record]:
    csv.field_size_limit(max(csv.field_size_limit(), MAX_RECORD_CHARACTERS))  # of the process; 131,072 by default
    reader = csv.reader((line + "\n" for _, line in read_lines(path)), strict=True)
    begin = 1  # first line of the record being read

    def rows() -> Iterator[tuple[int, list[str]]]:
        nonlocal begin
        for fields in reader:
            yield begin, fields
            begin = reader.line_num + 1

    try:
        yield from _table(path, columns, rows(), "put a text that holds a comma between double quotes")
    except csv.Error as error:
        raise UserError(f"{path}, line {begin}: not valid csv ({error}); check the double quotes of this row") from None


def _read_tsv(path: File, columns: Columns | None) -> Iterator[Record]:
    rows = ((number, line.split("\t")) for number, line in read_lines(path))
    yield from _table(path, columns, rows, "a tab stands between columns and never inside a text")


def _table(path: File, columns: Columns | None, rows: Iterator[tuple[int, list[str]]], mend: str) -> Iterator[Record]:
    """The records of a table; its first row is the header unless the columns are positions."""
    by_position = columns is not None and all(column.isdecimal() for column in columns)
    names: Columns = ()
    places: list[int] = []
    first, width = 0, 0
    for number, fields in rows:
        if not any(field.strip() for field in fields):
            continue
        if not first:
            first, width = number, len(fields)
            if columns is not None and by_position:
                names, places = columns, _positions(columns, width, f"{path}, line {number}")
            else:
                header = [field.strip() for field in fields]
                names = choose_columns(columns, header, path, headerless=True)
                places = [header.index(name) for name in names]
                continue
        if len(fields) != width:
            raise UserError(f"{path}, line {number}: {_counted(len(fields))}, but line {first} has {width}; {mend}")
        yield Record(number, 0, names, tuple(fields[place] for place in places))


def _positions(columns: Columns, width: int, where: str) -> list[int]:
    places = [(whole_number(column) or 0) - 1 for column in columns]
    if min(places) < 0:
        raise UserError(f"{where}: column positions count from 1, not {shortened(','.join(columns))}")
    if max(places) >= width:
        raise UserError(f"{where}: {_counted(width)}, but column {max(places) + 1} is asked for")
    return places


def _counted(columns: int) -> str:
    return f"{columns} column{'s' if columns > 1 else ''}"


def _read_jsonl(path: File, columns: Columns | None) -> Iterator[Record]:
    names: Columns | None = None
    for number, record in read_objects(path):
        if names is None or not all(name in record for name in names):
            names = choose_columns(names or columns, list(record), f"{path}, line {number}")
        yield Record(number, 0, names, tuple(record[name] for name in names))


def _read_parquet(path: File, columns: Columns | None) -> Iterator[Record]:
    require_packages(f"{path}: a Parquet file", "train", "pyarrow")
    import pyarrow
    import pyarrow.parquet

    content = path.path if isinstance(path, Spooled) else path
    number, characters = 0, 0
    most = max(UNPACKED_FREELY, MAX_GROWTH * content.stat().st_size)
    try:
        with pyarrow.parquet.ParquetFile(content) as file:
            names = choose_columns(columns, file.schema_arrow.names, path)
            for batch in file.iter_batches(batch_size=_BATCH, columns=list(names)):
                read = [column_values(batch.column(name), name, path, number) for name in names]
                for values in zip(*read, strict=True):
                    number += 1
                    characters += sum(len(value) for value in values if isinstance(value, str))
                    if characters > most:
                        raise UserError(
                            f"{path}, row {number}: unpacks to more than {MAX_GROWTH} times the file's size, which "
                            "text hardly does; drop repeated rows, or give a text file"
                        )
                    yield Record(number, 0, names, values)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"{path}, after row {number}: damaged or not a parquet file ({reason(error)}); fetch it or write it again"
        ) from None


def column_values(column: Array | ChunkedArray, name: str, where: File | str, before: int) -> list[object]:
    """The values of an Arrow column as Python's; ``before`` rows came before it.

    Raises:
        UserError: for bytes that are not UTF-8 in a column of text.
    """
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        pass
    for number, value in enumerate(column, start=before + 1):
        try:
            value.as_py()
        except UnicodeDecodeError as error:
            raise UserError(
                f"{where}, row {number}: column {name!r} is not UTF-8 text (byte 0x{error.object[error.start]:02x}); "
                "write it again in UTF-8"
            ) from None
    raise RuntimeError(f"column {name!r} is read neither as a whole nor value by value")


READERS: dict[str, Callable[[File, Columns | None], Iterator[Record]]] = {
    ".txt": _read_txt,
    ".csv": _read_csv,
    ".tsv": _read_tsv,
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
}
