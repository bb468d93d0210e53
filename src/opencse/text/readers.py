"""Sentences, pairs and triples from txt, csv, tsv, jsonl, parquet, or a Hub data set.

What comes out is the same for every source: rows of one, two or three texts (anchor, positive, hard
negative), and for running text the document each row belongs to.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opencse.errors import UserError, reason
from opencse.numerals import whole_number
from opencse.text.formats import READERS, Record, choose_columns
from opencse.text.lines import COMPRESSED, read_lines, require_file, suffix_of

ROLES = ("anchor", "positive", "negative")
FORMATS = tuple(READERS)


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
        columns: names of one to three columns, or their positions from 1 in a csv or tsv (then the file has no
            header); None takes `sentence` or `text`, `anchor, positive`, or `anchor, positive, negative`.
        split: the split of a Hub data set.
        skip_lines: line numbers to leave out, from 1 (for instance lines known to be in a test set); a csv row of
            several lines is named by its first. In parquet and data sets they are row numbers.
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
        if suffix_of(path) in FORMATS:
            return True
        try:
            if path.is_file() or path.is_dir():
                return path.is_file()
        except OSError:
            return True  # not to be looked at: reading it as a file tells why
        return self.location.count("/") != 1 or self.location.startswith((".", "/", "~"))

    @property
    def name(self) -> str:
        """What a person would call it."""
        return str(Path(self.location)) if self.is_file else f"{self.location} [{self.split}]"

    def fingerprint(self) -> str:
        """A hash of the content and of how it is read; equal fingerprints give equal rows.

        Raises:
            UserError: if there is nothing to read.
        """
        digest = hashlib.sha256()
        how: list[object] = [self.columns, sorted(self.skip_lines)]
        if self.is_file:
            path = require_file(Path(self.location))
            how.append(suffix_of(path))
            try:
                with path.open("rb") as stream:
                    while block := stream.read(1 << 20):
                        digest.update(block)
            except OSError as error:
                raise UserError(f"{path}: cannot be read ({reason(error)})") from None
        else:
            for record in _read_dataset(self):
                digest.update(repr(record.values).encode())
        digest.update(json.dumps(how).encode())
        return digest.hexdigest()

    def read(self) -> Texts:
        """All rows.

        Raises:
            UserError: naming the file, the line and the mend.
        """
        unit = "line" if self.is_file and suffix_of(Path(self.location)) != ".parquet" else "row"
        rows: list[tuple[str, ...]] = []
        documents: list[int] = []
        for record in self._records():
            if record.number not in self.skip_lines:
                rows.append(_checked(record, self.location, unit))
                documents.append(record.document)
        if not rows:
            raise UserError(
                f"{self.name}: no sentences in it (blank lines, a header or skipped lines only); "
                "give at least one sentence"
            )
        return Texts(rows, documents if documents[-1] > 0 else None, self.name)

    def _records(self) -> Iterator[Record]:
        if not self.is_file:
            return _read_dataset(self)
        path = require_file(Path(self.location))
        reader = READERS.get(suffix_of(path))
        if reader is None:
            raise UserError(
                f"{path}: unknown kind of file {suffix_of(path)!r}; known: {', '.join(FORMATS)}, "
                f"text also with {', '.join(COMPRESSED)} behind it"
            )
        return reader(path, self.columns)


def _checked(record: Record, location: str, unit: str) -> tuple[str, ...]:
    """The texts of a record, white space around them dropped."""
    texts: list[str] = []
    for name, value in zip(record.names, record.values, strict=True):
        text = value.strip() if isinstance(value, str) else ""
        if not text or not _is_unicode(text):
            where = f"{location}, {unit} {record.number}: column {name!r}"
            if text:
                raise UserError(f"{where} holds half of a surrogate pair, which is not text; mend its \\u escapes")
            if value is None or isinstance(value, str):
                raise UserError(f"{where} is empty; fill it or drop the {unit}")
            raise UserError(f"{where} holds {type(value).__name__}, not text; mend it or name another column")
        texts.append(text)
    return tuple(texts)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _load_dataset(source: Source) -> Any:  # noqa: ANN401 - `datasets` is untyped
    import datasets

    try:
        return datasets.load_dataset(source.location, split=source.split)
    except Exception as error:
        raise UserError(
            f"{source.location}: neither a file nor a data set that could be loaded, split {source.split!r} "
            f"({reason(error)}); give a file ({', '.join(FORMATS)}), a folder of such files, or a Hub id"
        ) from None


def _read_dataset(source: Source) -> Iterator[Record]:
    dataset = _load_dataset(source)
    names = choose_columns(source.columns, dataset.column_names, source.location)
    number = 0
    for batch in dataset.select_columns(list(names)).iter(batch_size=1_000):
        for values in zip(*(batch[name] for name in names), strict=True):
            number += 1
            yield Record(number, 0, names, values)


def read_line_numbers(path: Path) -> frozenset[int]:
    """Line numbers (from 1), one on each line of ``path``; for leaving lines of a text out."""
    numbers: set[int] = set()
    for number, line in read_lines(path):
        text = line.strip()
        if not text:
            continue
        found = whole_number(text)
        if not found:
            raise UserError(f"{path}, line {number}: a line number from 1 is expected, not {text[:40]!r}")
        numbers.add(found)
    return frozenset(numbers)
