"""Reads sentences, pairs and triples from a file of any kind, several files, a pipe, or a Hub data set.

Every source gives the same: rows of one, two or three texts (anchor, positive, hard negative), and for running text the
document that each row belongs to. Kinds of files are in `opencse.text.files`; documents with titles are read by
`opencse.text.documents`.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from opencse.errors import UserError, require_once
from opencse.files import is_folder
from opencse.numerals import number_of, whole_number
from opencse.text.files.data_sets import data_set_columns, read_data_set
from opencse.text.files.formats import (
    Columns,
    RawRow,
    choose_columns,
    present_columns,
    read_records,
    read_sections,
    without_markup,
)
from opencse.text.files.kinds import SECTIONED, FileKind, Reading, is_known, recognise
from opencse.text.files.lines import File, is_pipe, path_of, pipe_name, read_lines, spool, suffix_of
from opencse.text.files.prose import Section
from opencse.text.folders import tables_in
from opencse.text.values import NumericColumns, checked_texts, empty_column, line_about_empty

if TYPE_CHECKING:
    from opencse.text.labels import LabelKind, RowLabels

ROLES = ("anchor", "positive", "negative")
NOT_OF_FOLDERS = (
    "{}: --read-as says what one file is, or those of a pattern; those of a folder are what their names say"
)
_READING = 3
"""Version of how files are read; a new number makes cached results of earlier versions invalid."""


@dataclass(frozen=True)
class Texts:
    """Rows of text that were read.

    Attributes:
        rows: M rows of C texts each; C is 1 (sentences), 2 (pairs) or 3 (triples).
        documents: M document numbers for running text (blank lines between documents), else None.
        source: name of the origin, for messages.
    """

    rows: list[tuple[str, ...]]
    documents: list[int] | None
    source: str

    @property
    def width(self) -> int:
        """Texts in a row (C)."""
        return len(self.rows[0])


class TextRows(ABC):
    """Rows of texts that are read as often as needed: of files, of documents, in memory, or with labels.

    Attributes:
        label: what the labels of the rows are; None without labels.
        is_running: the order of the rows of a document means something, even where there is one document.
    """

    label: LabelKind | None = None
    is_running = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The name for messages."""

    @property
    def left_out_rows(self) -> str:
        """A line about rows that are left out because a cell is empty; empty where there are none."""
        return ""

    @abstractmethod
    def fingerprint(self) -> str:
        """A hash of the content and of how it is read; equal fingerprints give equal rows.

        Raises:
            UserError: if there is nothing to read.
        """

    @abstractmethod
    def examples(self) -> Iterator[tuple[RawRow, tuple[str, ...]]]:
        """Yields the rows, each with the record that it is from; at least one.

        Raises:
            UserError: naming the file, the line and the fix.
        """

    def row_labels(self) -> RowLabels | None:
        """The labels of all rows as numbers; None without labels."""
        return None

    def count_rows(self) -> int:
        """The number of rows."""
        return sum(1 for _ in self.examples())

    def rows_with_documents(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yields the rows, each with the number of its document; at least one."""
        return ((record.document, texts) for record, texts in self.examples())

    def read(self) -> Texts:
        """All rows."""
        rows: list[tuple[str, ...]] = []
        documents: list[int] = []
        for document, texts in self.rows_with_documents():
            rows.append(texts)
            documents.append(document)
        return Texts(rows, documents if self.is_running or documents[-1] > 0 else None, self.name)


@dataclass(frozen=True)
class Source(Reading, TextRows):
    r"""A text to read: its location, its columns, and lines to skip.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "pairs.csv"
        >>> _ = path.write_text("question,answer\nHow long?,Two hours.\nHow far?,A mile.\n")
        >>> source = Source(str(path), columns=("question", "answer"))
        >>> source.read().rows
        [('How long?', 'Two hours.'), ('How far?', 'A mile.')]
        >>> str(source.kind)
        'a table (separated by commas), UTF-8'

    Attributes:
        location: a file, a pattern of several (``texts/**/*.txt``: read one after the other, sorted by name; each .txt
            file begins a new document), a pipe (``-``: standard input), a Hub data set id, or a folder.
        columns: names of one to three columns, or their positions from 1 in a csv or tsv (then the file has no
            header); None takes `sentence` or `text`, `anchor, positive`, or `anchor, positive, negative`.
        split: the split of a Hub data set, or of a folder that `datasets` loads; None: the rows of all tables, JSON and
            Parquet files in a folder, one file after the other. Files without the columns are left out.
        skip_lines: line numbers to leave out, from 1 (for instance lines known to be in a test set); a csv row of
            several lines is named by its first. In parquet and data sets they are row numbers.
        keep_code: see `Reading`, as for ``read_as``, ``quoted`` and ``pages``.
    """

    location: str
    columns: tuple[str, ...] | None = None
    split: str | None = "train"
    skip_lines: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if self.columns is not None and not 1 <= len(self.columns) <= len(ROLES):
            raise UserError(
                f"{number_of(len(self.columns), 'column')} given; name one (sentences), two (pairs) or three (triples)"
            )
        require_once(self.columns or (), "column")

    @property
    def is_file(self) -> bool:
        """Whether the location is read as a file (and not by `datasets`)."""
        path = Path(self.location)
        if self.read_as or is_known(suffix_of(path)) or is_pipe(self.location) or self._is_several:
            return True
        try:
            if path.is_file() or path.is_dir():
                return path.is_file()
        except OSError:
            return True  # it cannot be examined: reading it as a file reports why
        return self.location.count("/") != 1 or self.location.startswith((".", "/", "~"))

    @property
    def name(self) -> str:
        """The name for messages."""
        if is_pipe(self.location):
            return pipe_name(self.location)
        return str(Path(self.location)) if self.is_file else f"{self.location} [{self.split}]"

    @property
    def unit(self) -> str:
        """What `RawRow.number` counts: lines, rows or documents."""
        if not self.is_file or self._is_several:
            return "row"
        kind = self.kind.name
        return "document" if kind in SECTIONED else "row" if kind in ("parquet", "json", "xml") else "line"

    @cached_property
    def kind(self) -> FileKind:
        """The kind that the file is read as; of several files, the first one's.

        Raises:
            UserError: for a missing or empty file, or one of an unknown kind.
        """
        return self._files[0].kind if self._is_several else recognise(self._file, self)

    @property
    def has_sections(self) -> bool:
        """Whether it holds documents of prose, whose sentences are its rows unless columns are given."""
        return self.is_file and self.columns is None and self.kind.name in SECTIONED

    @property
    def files(self) -> list[Source]:
        """The files of a pattern, sorted by name; else the source itself."""
        return self._files if self._is_several else [self]

    def present(self, columns: Columns = ()) -> Columns:
        """The names of the columns, nested keys with dots; of several files, the columns of the first.

        Args:
            columns: that the user named; see `opencse.text.files.formats.read_json`.
        """
        if not self.is_file:
            return data_set_columns(self.location, self.split or "train")
        return present_columns(self.files[0]._file, self.kind, columns)

    @property
    def _is_folder(self) -> bool:
        return self.split is None and is_folder(self.location)

    @cached_property
    def _is_several(self) -> bool:
        """Whether it is a pattern, or a folder of which all files are read."""
        return self._is_folder or (glob.has_magic(self.location) and not os.path.lexists(self.location))

    @cached_property
    def _files(self) -> list[Source]:
        """The files of a pattern or a folder, sorted by name."""
        if self.skip_lines:
            raise UserError(f"{self.location}: lines of several files have no common numbers; skip lines of one file")
        if self._is_folder:
            if self.read_as is not None:
                raise UserError(NOT_OF_FOLDERS.format(self.location))
            return [Source(str(path), self.columns, **self.how) for path in tables_in(Path(self.location))]
        every = glob.iglob(self.location, recursive=True)  # noqa: PTH207 - Path's takes no absolute pattern
        paths = sorted(path for path in every if Path(path).is_file())
        if not paths:
            raise UserError(f"{self.location}: no file has such a name; check the pattern (and quote it in a shell)")
        return [Source(path, self.columns, **self.how) for path in paths]

    @cached_property
    def _file(self) -> File:
        """The file that is read, under the name that messages give it."""
        path = Path(self.location)
        if not is_pipe(self.location):
            return path
        return spool(self.location, "".join(path.suffixes) if is_known(suffix_of(path)) else "")

    def sections(self, name: str | None = None) -> Iterator[Section]:
        """The sections of a file of prose; ``name`` is used in their names, by default the name of the file."""
        return read_sections(self._file, self.kind, name=name, keep_code=self.keep_code)

    def fingerprint(self) -> str:  # noqa: D102 - see TextRows
        digest = hashlib.sha256()
        how: list[object] = [self.columns, sorted(self.skip_lines), self.keep_code, _READING]
        if self._is_several:
            for file in self._files:
                digest.update(file.fingerprint().encode())
        elif self.is_file:
            path = path_of(self._file)
            how.append(str(self.kind))
            with path.open("rb") as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
        else:
            for record in self._records(self.columns):
                digest.update(repr(record.values).encode())
        digest.update(json.dumps(how).encode())
        return digest.hexdigest()

    def examples(self) -> Iterator[tuple[RawRow, tuple[str, ...]]]:
        """Yields the rows without an empty cell; see `TextRows.examples`."""
        if self._is_several:
            yield from self._one_after_the_other(lambda file: file.examples(), self.columns)
            return
        where, unit = self._where, self.unit
        empty = True
        numeric = NumericColumns(where)
        for record in self.records(self.columns):
            if empty_column(record) is None:
                texts = checked_texts(record, where, unit)
                numeric.look(record.names, texts)
                yield record, texts
                empty = False
        numeric.refuse()
        if empty:
            raise UserError(
                f"{self.name}: no sentences in it (blank lines, a header, empty cells or skipped lines only); "
                "give at least one sentence"
            )

    @property
    def _where(self) -> str:
        return self.name if is_pipe(self.location) else self.location

    @cached_property
    def left_out_rows(self) -> str:
        """A line about rows that `examples` leaves out; the first call reads all rows."""
        if self.is_file and not self._is_several and self.kind.name in ("text", *SECTIONED):
            return ""  # they have no cells
        return line_about_empty(self.records(self.columns), self.unit)

    def count_rows(self) -> int:
        """Counts the rows; refuses a file in which row i would not be line i + 1 of a text, or row i of a table.

        Raises:
            UserError: as `examples`, and for an empty cell, or a blank line of a text file that has a text after it.
        """
        rows = 0
        for record in self.records(self.columns):
            if (name := empty_column(record)) is not None:
                raise UserError(
                    f"{self._where}, {self.unit} {record.number}: column {name!r} is empty, so the vectors after it "
                    f"would not have the numbers of their rows; fill it or drop the {self.unit}"
                )
        lines = self.is_file and not self._is_several and self.kind.name == "text" and not self.skip_lines
        for record, _ in self.examples():
            rows += 1
            if lines and record.number != rows:
                raise UserError(
                    f"{self.name}, line {rows}: is blank, so the vectors after it would not have the numbers of their "
                    "lines; delete blank lines, or give a table (.jsonl, .csv)"
                )
        return rows

    def records(self, columns: tuple[str, ...] | None, *, lenient: bool = False) -> Iterator[RawRow]:
        """Yields the rows with unchecked values, in any number of columns, without ``skip_lines``.

        Args:
            columns: by name or position, instead of the source's own; None: the default ones.
            lenient: objects may lack a column; its value is `opencse.text.files.formats.ABSENT` then.

        Raises:
            UserError: naming the file, the line and the fix.
        """
        return (record for record in self._records(columns, lenient=lenient) if record.number not in self.skip_lines)

    def left_out(self, columns: Columns | None) -> list[tuple[str, str]]:
        """Why files of a folder are left out, and an error for each: they lack the columns, or are broken.

        Empty where no file can be read.

        Args:
            columns: that are read; None: the default ones.
        """
        faults = [fault for _, fault in self._with_faults(columns) if fault is not None]
        return faults if len(faults) < len(self._files) else []

    def _having(self, columns: Columns | None) -> list[Source]:
        """The files with the columns. Of a pattern these are all, since each was named."""
        if not self._is_folder:
            return self._files
        having = [file for file, fault in self._with_faults(columns) if fault is None]
        return having or self._files[:1]  # which reports what it lacks

    def _with_faults(self, columns: Columns | None) -> list[tuple[Source, tuple[str, str] | None]]:
        """The files of a folder, each with why it is left out, if it is. Each is read once to its end to know."""
        if columns not in self._faults:
            found: list[tuple[Source, tuple[str, str] | None]] = []
            for file in self._files:
                why = "without the columns"
                try:
                    if not (file.kind.name == "table" and all(name.isdecimal() for name in columns or [""])):
                        choose_columns(columns, file.present(columns or ()), file.name)
                    why = "that cannot be read to the end"
                    for _ in file.records(columns):
                        pass
                except UserError as error:
                    found.append((file, (why, str(error))))
                else:
                    found.append((file, None))
            self._faults[columns] = found
        return self._faults[columns]

    @cached_property
    def _faults(self) -> dict[Columns | None, list[tuple[Source, tuple[str, str] | None]]]:
        return {}

    def _one_after_the_other(
        self, read: Callable[[Source], Iterator[tuple[RawRow, tuple[str, ...]]]], columns: Columns | None
    ) -> Iterator[tuple[RawRow, tuple[str, ...]]]:
        """The rows of all files, numbered over all of them; every text file begins a new document.

        If some files are text files, each row of a table is a document of its own.
        """
        number, document = 0, 0
        width = 0
        files = self._having(columns)
        some_run = any(file.kind.name == "text" for file in files)
        for file in files:
            running = file.kind.name == "text"
            last = -1
            for record, texts in read(file):
                number, last = number + 1, record.document if running else last + 1
                if width not in (0, len(record.values)):
                    raise UserError(
                        f"{file.name}: {number_of(len(record.values), 'text')} per row, but {width} in the files "
                        "before it"
                    )
                width = len(record.values)
                yield record._replace(number=number, document=document + last if some_run else 0), texts
            document += last + 1

    def _records(self, columns: tuple[str, ...] | None, *, lenient: bool = False) -> Iterator[RawRow]:
        if self._is_several:
            every = self._one_after_the_other(
                lambda file: ((record, ()) for record in file.records(columns, lenient=lenient)), columns
            )
            return (record for record, _ in every)
        if not self.is_file:
            rows = read_data_set(self.location, self.split or "train", columns)
            return without_markup(rows, keep_code=self.keep_code)
        return read_records(self._file, self.kind, columns, lenient=lenient, keep_code=self.keep_code)


def read_line_numbers(path: Path) -> frozenset[int]:
    """Reads line numbers (from 1), one per line of ``path``, for `Source.skip_lines`."""
    numbers: set[int] = set()
    for number, line in read_lines(path):
        text = line.strip()
        if not text:
            continue
        line_number = whole_number(text)
        if not line_number:
            raise UserError(f"{path}, line {number}: a line number from 1 is expected, not {text[:40]!r}")
        numbers.add(line_number)
    return frozenset(numbers)
