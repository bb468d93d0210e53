"""Sentences, pairs and triples from txt, csv, tsv, jsonl, parquet, or a Hub data set.

What comes out is the same for every source: rows of one, two or three texts (anchor, positive, hard
negative), and for running text the document each row belongs to.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opencse.errors import UserError, nearest
from opencse.text.lines import read_lines, require_file, suffix_of

ROLES = ("anchor", "positive", "negative")
DEFAULT_COLUMNS = (("anchor", "positive", "negative"), ("anchor", "positive"), ("sentence",), ("text",))
FORMATS = (".txt", ".csv", ".tsv", ".jsonl", ".parquet")


@dataclass(frozen=True)
class Texts:
    """Raw text, read.

    Attributes:
        rows: M rows of C texts each; C is 1 (sentences), 2 (pairs) or 3 (triples).
        documents: M document numbers for running text (blank lines between documents), else None.
        source: what a person would call the origin.
    """

    rows: list[tuple[str, ...]]
    documents: list[int] | None
    source: str

    @property
    def width(self) -> int:
        """Texts in a row (C)."""
        return len(self.rows[0])


@dataclass(frozen=True)
class Source:
    """Where text comes from, before it is read.

    Attributes:
        location: a file, a Hub data set id, or a folder that `datasets` can load.
        columns: names of one to three columns, or their positions from 1 (then the file has no header);
            None takes `sentence` or `text`, `anchor, positive`, or `anchor, positive, negative`.
        split: the split of a Hub data set.
        skip_lines: line numbers to leave out, from 1 (for instance lines known to be in a test set).
    """

    location: str
    columns: tuple[str, ...] | None = None
    split: str = "train"
    skip_lines: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if self.columns is not None and not 1 <= len(self.columns) <= len(ROLES):
            raise UserError(f"{len(self.columns)} columns named; name one (sentences), two (pairs) or three (triples)")

    @property
    def is_file(self) -> bool:
        """Whether the location is read as a file (and not by `datasets`)."""
        path = Path(self.location)
        return path.is_file() or suffix_of(path) in FORMATS or not _looks_like_hub_id(self.location)

    def fingerprint(self) -> str:
        """A hash of the content and of how it is read; equal fingerprints give equal rows."""
        digest = hashlib.sha256()
        if self.is_file:
            with require_file(Path(self.location)).open("rb") as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
        else:
            digest.update(str(_hub_dataset(self)._fingerprint).encode())
        digest.update(json.dumps([self.columns, self.split, sorted(self.skip_lines)]).encode())
        return digest.hexdigest()

    def read(self) -> Texts:
        """All rows.

        Raises:
            UserError: naming the file, the line and the mend.
        """
        if not self.is_file:
            return _read_hub(self)
        path = require_file(Path(self.location))
        reader = _READERS.get(suffix_of(path))
        if reader is None:
            raise UserError(f"{path}: unknown kind of file {suffix_of(path)!r}; known: {', '.join(FORMATS)}")
        rows: list[tuple[str, ...]] = []
        documents: list[int] = []
        for line, document, row in reader(path, self.columns):
            if line not in self.skip_lines:
                rows.append(_checked(row, path, line))
                documents.append(document)
        if not rows:
            raise UserError(f"{path}: no sentences in the file (blank lines only)")
        return Texts(rows, documents if documents[-1] > 0 else None, str(path))


Numbered = Iterator[tuple[int, int, tuple[str, ...]]]


def _looks_like_hub_id(location: str) -> bool:
    path = Path(location)
    return path.is_dir() or (location.count("/") == 1 and not location.startswith((".", "/", "~")))


def _checked(row: tuple[str, ...], path: Path | str, line: int) -> tuple[str, ...]:
    stripped = tuple(text.strip() for text in row)
    if not all(stripped):
        raise UserError(f"{path}, line {line}: column {stripped.index('') + 1} is empty; fill it or drop the line")
    return stripped


def _read_txt(path: Path, columns: tuple[str, ...] | None) -> Numbered:
    if columns is not None:
        raise UserError(f"{path}: a .txt file has no columns; drop --columns, or give a csv, tsv, jsonl or parquet file")
    document, begun = 0, False
    for number, line in read_lines(path):
        if line.strip():
            begun = True
            yield number, document, (line,)
        elif begun:
            document, begun = document + 1, False


def _read_csv(path: Path, columns: tuple[str, ...] | None) -> Numbered:
    lines = (line + "\n" for _, line in read_lines(path))
    reader = csv.reader(lines, strict=True)
    try:
        yield from _table(path, columns, ((reader.line_num, fields) for fields in reader))
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: not valid csv ({error})") from None


def _read_tsv(path: Path, columns: tuple[str, ...] | None) -> Numbered:
    yield from _table(path, columns, ((number, line.split("\t")) for number, line in read_lines(path)))


def _table(path: Path, columns: tuple[str, ...] | None, records: Iterator[tuple[int, list[str]]]) -> Numbered:
    positions: list[int] | None = None
    if columns is not None and all(c.isdecimal() for c in columns):
        positions = [int(c) - 1 for c in columns]
        if min(positions) < 0:
            raise UserError(f"{path}: column positions count from 1, got {', '.join(columns)}")
    for number, fields in records:
        if positions is None:
            names = choose_columns(columns, fields, path, headerless=True)
            positions = [fields.index(name) for name in names]
        elif any(fields):
            if max(positions) >= len(fields):
                raise UserError(
                    f"{path}, line {number}: {len(fields)} columns, but column {max(positions) + 1} is asked for"
                )
            yield number, 0, tuple(fields[p] for p in positions)


def choose_columns(
    wanted: tuple[str, ...] | None, present: Sequence[str], where: Path | str, *, headerless: bool = False
) -> tuple[str, ...]:
    """The columns to read: those asked for, or the first default set that is there in full."""
    if wanted is not None:
        for name in wanted:
            if name not in present:
                hint = nearest(name, present)
                raise UserError(f"{where}: no column {name!r}{hint}; columns there: {', '.join(present)}")
        return wanted
    for names in DEFAULT_COLUMNS:
        if all(name in present for name in names):
            return names
    by_position = ", or --columns 1,2 by position if the file has no header" if headerless else ""
    raise UserError(
        f"{where}: none of the expected columns (sentence; anchor, positive; anchor, positive, negative) is there; "
        f"name yours with --columns, for instance --columns {present[0][:40]}{by_position}"
    )


def _read_jsonl(path: Path, columns: tuple[str, ...] | None) -> Numbered:
    names: tuple[str, ...] | None = None
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise UserError(f"{path}, line {number}: not valid JSON ({error.msg})") from None
        if not isinstance(record, dict):
            raise UserError(f"{path}, line {number}: a JSON object a line is expected, not {type(record).__name__}")
        names = names or choose_columns(columns, list(record), path)
        yield number, 0, tuple(_text(record.get(name), name, path, number) for name in names)


def _text(value: Any, name: str, where: Path | str, line: int) -> str:  # noqa: ANN401 - any JSON value
    if not isinstance(value, str):
        raise UserError(f"{where}, line {line}: column {name!r} holds {type(value).__name__}, not text")
    return value


def _read_parquet(path: Path, columns: tuple[str, ...] | None) -> Numbered:
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise UserError(f"{path}: not a parquet file ({str(error).splitlines()[0]})") from None
    names = choose_columns(columns, file.schema_arrow.names, path)
    number = 0
    for batch in file.iter_batches(columns=list(names)):
        for record in batch.to_pylist():
            number += 1
            yield number, 0, tuple(_text(record[name], name, path, number) for name in names)


def _hub_dataset(source: Source) -> Any:  # noqa: ANN401 - `datasets` is untyped
    import datasets

    try:
        return datasets.load_dataset(source.location, split=source.split)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(
            f"{source.location}: neither a file here nor a data set that could be loaded from the Hub ({reason})"
        ) from None


def _read_hub(source: Source) -> Texts:
    dataset = _hub_dataset(source)
    names = choose_columns(source.columns, dataset.column_names, source.location)
    rows: list[tuple[str, ...]] = []
    for number, record in enumerate(dataset.select_columns(list(names)), start=1):
        if number not in source.skip_lines:
            row = tuple(_text(record[name], name, source.location, number) for name in names)
            rows.append(_checked(row, source.location, number))
    if not rows:
        raise UserError(f"{source.location}: split {source.split!r} holds no rows")
    return Texts(rows, None, f"{source.location} [{source.split}]")


_READERS: dict[str, Callable[[Path, tuple[str, ...] | None], Numbered]] = {
    ".txt": _read_txt,
    ".csv": _read_csv,
    ".tsv": _read_tsv,
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
}


def read_line_numbers(path: Path) -> frozenset[int]:
    """Line numbers (from 1), one on each line of ``path``; for leaving lines of a text out."""
    numbers: set[int] = set()
    for number, line in read_lines(path):
        if line.strip():
            if not line.strip().isdecimal():
                raise UserError(f"{path}, line {number}: a line number is expected, got {line.strip()[:40]!r}")
            numbers.add(int(line))
    return frozenset(numbers)
