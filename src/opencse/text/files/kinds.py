"""Says what a file is, by its name or ``--read-as``; looks into it for its encoding, and a table's separator, alone."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypedDict

from opencse.errors import UserError, nearest
from opencse.text.files.lines import (
    COMPRESSED,
    MAX_RECORD_CHARACTERS,
    File,
    encoding_of,
    open_plain,
    path_of,
    read_lines,
    suffix_of,
)

KindName = Literal[
    "text", "table", "jsonl", "json", "parquet", "xml", "wikipedia", "markdown", "rst", "html", "mail", "mbox",
    "subtitles", "pages", "pdf", "docx", "epub",
]  # fmt: skip
SUFFIXES: dict[str, KindName] = {
    ".txt": "text", ".csv": "table", ".tsv": "table", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json",
    ".parquet": "parquet", ".xml": "xml", ".md": "markdown", ".markdown": "markdown", ".rst": "rst", ".html": "html",
    ".htm": "html", ".xhtml": "html", ".eml": "mail", ".mbox": "mbox", ".srt": "subtitles", ".vtt": "subtitles",
    ".pdf": "pdf", ".docx": "docx", ".epub": "epub",
}  # fmt: skip
"""The kinds by the suffixes of their files."""
SECTIONED: frozenset[KindName] = frozenset(
    ("wikipedia", "markdown", "rst", "html", "mail", "mbox", "subtitles", "pages", "pdf", "docx", "epub")
)
"""Kinds that hold documents of prose, with paragraphs and perhaps a title, and without columns."""
NAMES: dict[KindName, str] = {
    "text": "one text per line", "table": "a table", "jsonl": "JSON lines", "json": "JSON", "parquet": "Parquet",
    "xml": "XML", "wikipedia": "a Wikipedia dump", "markdown": "Markdown", "rst": "reStructuredText", "html": "HTML",
    "mail": "an e-mail", "mbox": "a mailbox", "subtitles": "subtitles", "pages": "text taken from a PDF", "pdf": "PDF",
    "docx": "a Word document", "epub": "an e-book (EPUB)",
}  # fmt: skip
_BINARY: frozenset[KindName] = frozenset(("parquet", "pdf", "docx", "epub"))
_OTHERS = {
    **dict.fromkeys((".doc", ".rtf", ".odt"), "save it as .docx"),
    **dict.fromkeys((".pptx", ".ppt", ".odp"), "save it as .pdf"),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "save it as .csv"),
    ".ipynb": "save it as .md (jupyter nbconvert --to markdown)",
    **dict.fromkeys((".zip", ".tar", ".tgz", ".7z"), "unpack it and give the folder"),
}
_NO_TEXT = {
    b"%PDF-": "a PDF; rename it to end in .pdf",
    b"PAR1": "a Parquet file; rename it to end in .parquet",
    b"PK\x03\x04": "a ZIP archive (Word, slides, a spreadsheet, an e-book, ...); rename it to end as its kind does",
    b"{\\rtf": "rich text (RTF), which is not read; save it as .docx",
    b"\xd0\xcf\x11\xe0": "an old Office file, which is not read; save it as .docx, or a table as .csv",
    b"\x1f\x8b": "packed; rename it to {name}.gz, or unpack it",
    b"\xfd7zXZ\0": "packed; rename it to {name}.xz, or unpack it",
    b"BZh91AY&SY": "packed; rename it to {name}.bz2, or unpack it",
    b"\x28\xb5\x2f\xfd": "packed; rename it to {name}.zst, or unpack it",
}
"""The first bytes of files that are no text, whatever their names say."""
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_ROWS = 60
"""Number of first rows by which the separator of a table is recognised."""


class HowRead(TypedDict, total=False):
    """Arguments that say how files are read; see `Reading`."""

    read_as: str | None
    keep_code: bool
    keep_repeated: bool
    quoted: bool
    pages: bool


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a file does not say itself of how it is to be read.

    Attributes:
        read_as: read a file, or those of a pattern, as if its name ended so (``csv``), whatever it is called.
        keep_code: keep code blocks of HTML (also in the cells of a table) and Markdown.
        keep_repeated: keep lines that most pages of a folder or pattern have.
        quoted: fields of a table with tabs may be in double quotes; else quotation marks there are text.
        pages: each ``.txt`` file is text taken from a PDF, and not one text per line.
    """

    read_as: str | None = None
    keep_code: bool = False
    keep_repeated: bool = False
    quoted: bool = False
    pages: bool = False

    @property
    def how(self) -> HowRead:
        """All of it as arguments."""
        return how_read(vars(self))


def how_read(options: Mapping[str, Any]) -> HowRead:
    """The arguments about reading among the options of a command."""
    how: Any = {name: options[name] for name in HowRead.__annotations__}
    read: HowRead = how
    return read


def typed(given: Mapping[str, object]) -> list[str]:
    """The options of a suggested command that read the same text in the same way.

    Example:
        >>> typed({"fields": ("subject", "body"), "split": "train", "quoted": True, "pages": False})
        ['--fields', 'subject,body', '--quoted']

    Args:
        given: the arguments by which it was read, among others.
    """
    words: list[str] = []
    for name in ("fields", "columns", "split", *HowRead.__annotations__):
        value: Any = given.get(name)
        if value and (name, value) != ("split", "train"):
            words.append(f"--{name.replace('_', '-')}")
            words += [] if value is True else [value if isinstance(value, str) else ",".join(value)]
    return words


@dataclass(frozen=True)
class FileKind:
    """The kind of a file, and how it is read.

    Attributes:
        name: the kind.
        encoding: of its text; empty for binary kinds.
        separator: of a table's columns; empty elsewhere.
        quoted: whether fields of a table may be in double quotes.
        first_line: of a table's header, from 1.
    """

    name: KindName
    encoding: str = ""
    separator: str = ""
    quoted: bool = True
    first_line: int = 1

    def __str__(self) -> str:
        """A description for messages: ``a table (separated by semicolons), CP1252``."""
        quotes = ", fields in quotes" if self.separator == "\t" and self.quoted else ""
        separator = (
            f" (separated by {SEPARATORS.get(self.separator, self.separator)}{quotes})" if self.separator else ""
        )
        return NAMES[self.name] + separator + (f", {self.encoding.upper()}" if self.encoding else "")


def is_known(suffix: str) -> bool:
    """Whether ``suffix`` is of a kind that is read, or of one that is refused with advice."""
    return suffix in SUFFIXES or suffix in _OTHERS


def how_to_convert(suffix: str) -> str | None:
    """Advice for a kind of file that is known and not read; None for other kinds."""
    return _OTHERS.get(suffix)


def kind_named(path: Path, how: Reading) -> KindName | None:
    """The kind that the name of a file or ``--read-as`` says; None for one that is not read."""
    kind = SUFFIXES.get(f".{how.read_as}" if how.read_as else suffix_of(path))
    return "pages" if kind == "text" and how.pages else kind


def recognise(file: File, how: Reading | None = None) -> FileKind:
    r"""What ``file`` is read as.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a.csv"
        >>> _ = path.write_text("title;text\nOne;First text.\nTwo;Second text.\n")
        >>> str(recognise(path)), str(recognise(path, Reading(read_as="txt")))
        ('a table (separated by semicolons), UTF-8', 'one text per line, UTF-8')

    Args:
        file: its suffix says what it is.
        how: options of the user.

    Raises:
        UserError: for a missing or empty file, or a kind that is not read, with the fix.
    """
    how = how or Reading()
    path, suffix = path_of(file), suffix_of(path_of(file))
    name = kind_named(path, how)
    if name is None:
        known = ", ".join(one[1:] for one in SUFFIXES)
        if how.read_as:
            hint = nearest(how.read_as, known.split(", "))
            raise UserError(f"--read-as {how.read_as}: not a kind that is read{hint}; known: {known}")
        if suffix in _OTHERS:
            raise UserError(f"{file}: {suffix} files are not read; {_OTHERS[suffix]}")
        raise UserError(
            f"{file}: unknown kind of file {suffix!r}; if it is plain text, rename it to end in .txt or add "
            f"--read-as txt; known: {known}, text also with {', '.join(COMPRESSED)} behind it"
        )
    with open_plain(file) as stream:
        head = stream.read(2_000)
    if name in _BINARY:
        return FileKind(name)
    for begin, is_one in _NO_TEXT.items():
        if head.startswith(begin):
            raise UserError(f"{file}: is {is_one.format(name=path.name)}")
    encoding = encoding_of(file)
    if name == "table":
        return _table(file, "\t" if "tsv" in (how.read_as or suffix) else ",", encoding, how.quoted)
    return FileKind("wikipedia" if name == "xml" and b"<mediawiki" in head.replace(b"\0", b"") else name, encoding)


def _table(file: File, usual: str, encoding: str, quoted: bool) -> FileKind:
    """A table with the separator that its first line names, or that makes its first rows equally wide."""
    lines = [line for _, line in islice(read_lines(file, records=True), _ROWS * 10)]
    named = lines[0].strip('"') if lines else ""
    if len(named) == 5 and named.casefold().startswith("sep="):
        return FileKind("table", encoding, named[4], named[4] != "\t" or quoted, 2)
    widths = {separator: _width(lines, separator, quoted) for separator in SEPARATORS}
    separator = usual if widths[usual] or not any(widths.values()) else max(widths, key=lambda one: widths[one])
    return FileKind("table", encoding, separator, separator != "\t" or quoted)


def _width(lines: list[str], separator: str, quoted: bool) -> int:
    """Columns of nine in ten of the first rows, with or without names of rows; 0 if there is no such number above 1."""
    csv.field_size_limit(max(csv.field_size_limit(), MAX_RECORD_CHARACTERS))  # of the process; 131,072 by default
    widths: list[int] = []
    read: Iterator[list[str]] = csv.reader((f"{line}\n" for line in lines), delimiter=separator)
    if separator == "\t" and not quoted:
        read = (line.split(separator) for line in lines)
    with suppress(csv.Error):
        widths.extend(len(row) for row in islice((row for row in read if any(map(str.strip, row))), _ROWS))
    header = widths[0] if widths else 0
    even = max((widths.count(header), widths[1:].count(header + 1) + 1)) >= 0.9 * len(widths)
    return header if header > 1 and even else 0
