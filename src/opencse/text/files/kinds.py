"""Recognises the kind of a file by its content, and where that is not enough by its name."""

from __future__ import annotations

import csv
import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypedDict

from opencse.errors import UserError
from opencse.text.files.lines import (
    COMPRESSED,
    MARKDOWN,
    File,
    encoding_of,
    open_plain,
    path_of,
    require_file,
    suffix_of,
)

KindName = Literal[
    "text", "table", "jsonl", "json", "parquet", "xml", "wikipedia", "markdown", "rst", "html", "mail", "mbox",
    "subtitles", "pages", "pdf", "docx", "epub",
]  # fmt: skip
SUFFIXES: dict[str, KindName] = {
    ".txt": "text",
    ".csv": "table",
    ".tsv": "table",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".xml": "xml",
    **dict.fromkeys(MARKDOWN, "markdown"),
    ".rst": "rst",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".eml": "mail",
    ".mbox": "mbox",
    ".srt": "subtitles",
    ".vtt": "subtitles",
    ".pdf": "pdf",
    ".docx": "docx",
    ".epub": "epub",
}
"""The kinds by the suffixes of their files."""
SECTIONED: frozenset[KindName] = frozenset(
    ("wikipedia", "markdown", "rst", "html", "mail", "mbox", "subtitles", "pages", "pdf", "docx", "epub")
)
"""Kinds that hold documents of prose, with paragraphs and perhaps a title, and without columns."""
NAMES: dict[KindName, str] = {
    "text": "one text per line",
    "table": "a table",
    "jsonl": "JSON lines",
    "json": "JSON",
    "parquet": "Parquet",
    "xml": "XML",
    "wikipedia": "a Wikipedia dump",
    "markdown": "Markdown",
    "rst": "reStructuredText",
    "html": "HTML",
    "mail": "an e-mail",
    "mbox": "a mailbox",
    "subtitles": "subtitles",
    "pages": "text taken from a PDF",
    "pdf": "PDF",
    "docx": "a Word document",
    "epub": "an e-book (EPUB)",
}
_OTHERS = {
    ".doc": "save it as .docx",
    ".rtf": "save it as .docx",
    ".odt": "save it as .docx",
    ".pptx": "save it as .pdf",
    ".ppt": "save it as .pdf",
    ".odp": "save it as .pdf",
    ".xlsx": "save it as .csv",
    ".xls": "save it as .csv",
    ".ods": "save it as .csv",
    ".ipynb": "save it as .md (jupyter nbconvert --to markdown)",
    ".zip": "unpack it and give the folder",
    ".tar": "unpack it and give the folder",
    ".tgz": "unpack it and give the folder",
    ".7z": "unpack it and give the folder",
}
_PACKED = {b"\x1f\x8b": ".gz", b"\xfd7zXZ\0": ".xz", b"BZh": ".bz2", b"\x28\xb5\x2f\xfd": ".zst"}
"""The first bytes of packed files, which are unpacked where the name says so."""
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_HEAD = 1 << 18
"""Number of bytes at the beginning of a file by which its kind is recognised."""
_ROWS = 60
_SEP = re.compile(r'"?sep=([^"])"?\r?\n', re.IGNORECASE)
_CUE = re.compile(r"^(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}\s+-->\s", re.MULTILINE)
_MAILBOX = re.compile(r"From \S+.*\d{4}\r?\n[!-9;-~]+:")
_HTML = re.compile(r"<(?:!doctype html|html|head|body)\b", re.IGNORECASE)


class HowRead(TypedDict, total=False):
    """Arguments that say how files are read; see `Reading`."""

    keep_code: bool
    keep_repeated: bool
    quoted: bool
    pages: bool


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a file does not say itself of how it is to be read.

    Attributes:
        keep_code: keep code blocks of HTML (also in the cells of a table) and Markdown.
        keep_repeated: keep lines that most pages of a folder or pattern have.
        quoted: fields of a table with tabs may be in double quotes; else quotation marks there are text.
        pages: each ``.txt`` file is text taken from a PDF, and not one text per line.
    """

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
    return {
        "keep_code": options["keep_code"],
        "keep_repeated": options["keep_repeated"],
        "quoted": options["quoted"],
        "pages": options["pages"],
    }


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


def recognise(file: File, *, quoted: bool = False, pages: bool = False) -> FileKind:
    r"""Recognises ``file`` by its first 256 KiB, and where they are not enough by its suffix.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a.txt"
        >>> _ = path.write_text("title;text\nOne;First text.\nTwo;Second text.\n")
        >>> recognise(path).name
        'table'

    Args:
        file: to recognise.
        quoted: see `Reading`.
        pages: see `Reading`.

    Raises:
        UserError: for a missing or empty file, or a kind that is not read, with the fix.
    """
    path = require_file(path_of(file))
    facts = path.stat()
    try:
        return _recognise(path, facts.st_size, facts.st_mtime_ns, quoted, pages)
    except UserError as error:
        raise UserError(str(error).replace(str(path), str(file), 1)) from None


@lru_cache(maxsize=4_096)
def _recognise(path: Path, size: int, changed: int, quoted: bool, pages: bool) -> FileKind:
    suffix = suffix_of(path)
    by_name = SUFFIXES.get(suffix)
    head = b"" if by_name == "parquet" else _head(path)
    if (binary := _binary(path, head)) is not None:
        return FileKind(binary)
    if by_name in ("parquet", "pdf", "docx", "epub"):
        return FileKind(by_name)
    if suffix in _OTHERS:
        raise UserError(f"{path}: {suffix} files are not read; {_OTHERS[suffix]}")
    encoding = encoding_of(path)
    text = head.decode(encoding, errors="replace").removeprefix("\ufeff")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    name = "pages" if pages and by_name == "text" else _of_text(text, by_name, complete=len(head) < _HEAD)
    if name is None:
        known = ", ".join(SUFFIXES)
        raise UserError(
            f"{path}: unknown kind of file {suffix!r}; if it is plain text, rename it to end in .txt; known: {known}, "
            f"text also with {', '.join(COMPRESSED)} behind it"
        )
    if name in ("table", "text"):
        certain = by_name == "table"
        return _table(text, suffix, encoding, certain=certain, complete=len(head) < _HEAD, quoted=quoted)
    return FileKind(name, encoding)


def _head(path: Path) -> bytes:
    try:
        with open_plain(path) as stream:
            return stream.read(_HEAD)
    except (OSError, EOFError, ValueError):
        return b""  # reported where the file is read
    except Exception as error:
        if isinstance(error, UserError):
            raise
        return b""  # damage of a compressed file, reported where it is read


def _binary(path: Path, head: bytes) -> KindName | None:
    if head.startswith(b"%PDF-"):
        return "pdf"
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"{\\rtf"):
        raise UserError(f"{path}: rich text (RTF) is not read; {_OTHERS['.rtf']}")
    packed = next((suffix for begin, suffix in _PACKED.items() if head.startswith(begin)), None)
    if packed is not None and not head.isascii():
        raise UserError(f"{path}: is packed; rename it to {path.name.removesuffix(packed)}{packed}, or unpack it")
    if head.startswith(b"\xd0\xcf\x11\xe0"):
        raise UserError(f"{path}: an old Office file is not read; save it as .docx, or a table as .csv")
    if not head.startswith(b"PK\x03\x04") or path.suffix.lower() in COMPRESSED:
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
    except (OSError, zipfile.BadZipFile, ValueError):
        return "epub" if path.suffix.lower() == ".epub" else "docx"  # damaged; reported where it is read
    if "word/document.xml" in names:
        return "docx"
    if "META-INF/container.xml" in names:
        return "epub"
    suffix = next(
        (s for part, s in (("ppt/", ".pptx"), ("xl/", ".xlsx")) if any(n.startswith(part) for n in names)), ""
    )
    suffix = suffix or (path.suffix.lower() if path.suffix.lower() in _OTHERS else ".zip")
    raise UserError(f"{path}: {suffix} files are not read; {_OTHERS[suffix]}")


def _of_text(text: str, by_name: KindName | None, *, complete: bool) -> KindName | None:
    begin = text.lstrip()
    lines = [line for line in text.split("\n", 200)[:200] if line.strip()]
    if not lines:
        return by_name
    if by_name in ("markdown", "rst", "mail", "mbox", "subtitles", "html"):
        return by_name
    if _HTML.match(begin) or (begin.startswith("<?xml") and _HTML.search(begin[:500])):
        return "html"
    if begin.startswith("<?xml") or (by_name == "xml" and begin.startswith("<")):
        return "wikipedia" if "<mediawiki" in begin[:2_000] else "xml"
    if begin.startswith("WEBVTT") or (by_name in (None, "text") and len(_CUE.findall(text)) * 6 > len(lines)):
        return "subtitles"
    if by_name in (None, "text") and _MAILBOX.match(begin):
        return "mbox"
    if by_name == "table":
        return by_name
    if by_name in ("json", "jsonl") or (begin[:1] in ("{", "[") and _is_json(lines, complete=complete)):
        return _json_kind(begin, lines, by_name)
    return by_name


def _json_kind(begin: str, lines: list[str], by_name: KindName | None) -> KindName:
    """Whether there is one value in the file, or one object per line."""
    if begin.startswith("["):
        return "json"
    if by_name == "json" and len(lines) == 1:
        return "json"
    if by_name == "jsonl" and begin.startswith('"'):
        return "jsonl"  # texts, one per line
    if not _holds_json(lines[0]) and (by_name != "jsonl" or lines[0].strip() == "{"):
        return "json"  # one value over several lines, some of which may be whole objects of a list inside it
    has_objects_as_lines = any(line.lstrip().startswith("{") and _holds_json(line) for line in lines)
    return "jsonl" if has_objects_as_lines or len(lines) == 1 else "json"


def _holds_json(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _is_json(lines: list[str], *, complete: bool) -> bool:
    """Whether text of an unknown kind is JSON: an object per line, or the beginning of a value."""
    if _holds_json(lines[0]):
        return True
    try:
        json.loads("\n".join(lines))
    except RecursionError:
        return False
    except ValueError as error:
        return not complete and isinstance(error, json.JSONDecodeError) and error.pos > 1_000
    return True


def _table(text: str, suffix: str, encoding: str, *, certain: bool, complete: bool, quoted: bool) -> FileKind:
    """A table with the separator that makes rows of one width; or one text per line."""
    if match := _SEP.match(text):
        return FileKind("table", encoding, match[1], match[1] != "\t" or quoted, 2)
    rows = {separator: _records(text, separator, complete=complete, quoted=quoted) for separator in SEPARATORS}
    widths = {separator: len(some[0]) for separator, some in rows.items() if _is_even(some)}
    usual = "\t" if suffix == ".tsv" else ","
    if certain:
        separator = usual if usual in widths or not widths else max(widths, key=lambda one: widths[one])
    else:
        separator = next((one for one in "\t;|," if one in widths and _has_header(rows[one], one)), "")
    return (
        FileKind("table", encoding, separator, separator != "\t" or quoted) if separator else FileKind("text", encoding)
    )


def _records(text: str, separator: str, *, complete: bool, quoted: bool) -> list[list[str]]:
    """The first rows; the last one, which may be incomplete, only if ``text`` is the complete file."""
    lines = text.split("\n")
    if not complete:
        lines = lines[:-1]
    csv.field_size_limit(max(csv.field_size_limit(), _HEAD * 4))
    rows: list[list[str]] = []
    is_plain = separator == "\t" and not quoted
    quoting = csv.reader((f"{line}\n" for line in lines), delimiter=separator)
    read = (line.split(separator) for line in lines) if is_plain else quoting
    try:
        for row in read:
            if any(cell.strip() for cell in row):
                rows.append(row)
            if len(rows) > _ROWS:
                return rows[:-1]
    except csv.Error:
        pass
    return rows if complete else rows[:-1]


def _is_even(rows: list[list[str]]) -> bool:
    """Whether the header has several columns, and nine in ten of the first rows as many."""
    widths = [len(row) for row in rows]
    return bool(widths) and widths[0] > 1 and widths.count(widths[0]) >= 0.9 * len(widths)


def _has_header(rows: list[list[str]], separator: str) -> bool:
    """Whether the first row looks like names of columns; a .txt file is a table only then."""
    names = [name.strip().strip('"') for name in rows[0]]
    return (
        len(rows) > 2
        and len(set(names)) == len(names)
        and all(
            name and len(name) <= 40 and len(name.split()) <= 4 and name[-1] not in ".!?:" and not name[0].isdigit()
            for name in names
        )
        and (separator == "\t" or any(name.casefold() in ("text", "title", "id", "sentence") for name in names))
    )
