"""Reads text files, plain or packed, and what comes through a pipe: lines with their numbers, or the whole text."""

from __future__ import annotations

import bz2
import codecs
import gzip
import json
import lzma
import os
import re
import shutil
import stat
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO

from opencse.environment import require_packages
from opencse.errors import UserError, explaining, reason

MAX_LINE_CHARACTERS = 100_000
MAX_RECORD_CHARACTERS = 10_000_000
"""Largest number of characters in a line of a table, or in an object, which may hold a whole document."""
STANDARD_INPUT = ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
_DESCRIPTORS = ("/dev/fd/", "/proc/self/fd/")
_BLOCK = 1 << 20
UTF_8 = "utf-8"
_MARKS = (
    (codecs.BOM_UTF8, UTF_8),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_MULTIBYTE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_HIGH = re.compile(rb"[\x80-\xff]")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_DECLARED = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?([A-Za-z0-9._:-]{2,40})""", re.IGNORECASE)
_CODE_PAGES = [
    "cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "koi8_r",
    "shift_jis", "euc_jp", "gb18030", "big5", "euc_kr", "mac_roman",
]  # fmt: skip
_LATIN = {
    **dict.fromkeys(("Czech", "Slovak", "Polish", "Hungarian", "Croatian", "Slovene", "Romanian"), "cp1250"),
    **dict.fromkeys(("Lithuanian", "Latvian", "Estonian"), "cp1257"),
    "Turkish": "cp1254",
}
"""Windows' code pages of Latin letters other than cp1252, by language."""
_PUNCTUATION = frozenset("–—‘’“”„‚…•€§°«»·£©®™²³½ ")
_LOOKED_AT = 1 << 16
"""Number of bytes, of lines with letters outside ASCII, from which a code page is detected."""


@dataclass(frozen=True)
class Spooled:
    """The text that came through a pipe, which can be read only once, in a temporary file.

    Attributes:
        path: a temporary file of the same bytes, deleted with the object that `spool` returned.
        name: the name of the pipe in messages.
    """

    path: Path
    name: str

    def __str__(self) -> str:
        return self.name


File = Path | Spooled
_IN_USE: weakref.WeakValueDictionary[tuple[int, int], Spooled] = weakref.WeakValueDictionary()
"""The texts of pipes that are still in use, by device and number of the pipe."""


def is_pipe(location: str) -> bool:
    """Whether ``location`` is standard input (``-``), an open descriptor, a pipe or a device: readable once."""
    if location in STANDARD_INPUT or location.startswith(_DESCRIPTORS):
        return True
    try:
        mode = Path(location).stat().st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)


def pipe_name(location: str) -> str:
    """The name of the pipe in messages."""
    return "standard input" if location in STANDARD_INPUT else location


def name_in_command(location: str, unknown: str = "FILE") -> str:
    """The text of a suggested command: ``location``, or ``unknown`` for a pipe, which the command could not read again.

    Example:
        >>> name_in_command("notes.txt"), name_in_command("-")
        ('notes.txt', 'FILE')
    """
    return unknown if is_pipe(location) else location


def spool(location: str, suffix: str) -> Spooled:
    """Reads the pipe at ``location`` to its end; further calls while the text is in use return the same object.

    Args:
        location: see `is_pipe`.
        suffix: of the pipe's name. A pipe without one is JSON lines if its first line is an object, else text.

    Raises:
        UserError: if it cannot be read, is empty, or there is no room for it.
    """
    name, is_standard = pipe_name(location), location in STANDARD_INPUT
    path = Path(tempfile.gettempdir(), "a temporary file")
    with explaining(f"{name}: cannot be read or kept in {path.parent}", OSError, fix="make room there or set TMPDIR"):
        status = os.fstat(0) if is_standard else Path(location).stat()
        if (in_use := _IN_USE.get((status.st_dev, status.st_ino))) is not None:
            return in_use
        descriptor, temporary = tempfile.mkstemp(prefix="opencse-", suffix=suffix or ".txt")
        spooled = Spooled(path := Path(temporary), name)
        weakref.finalize(spooled, lambda: path.unlink(missing_ok=True))
        with os.fdopen(descriptor, "wb") as target, open(os.dup(0) if is_standard else location, "rb") as source:  # noqa: PTH123
            shutil.copyfileobj(source, target)
        with path.open("rb") as stream:
            first = stream.readline(_BLOCK)
    if not first:
        raise UserError(f"{name}: it is empty; one sentence per line is expected")
    if not suffix and first.removeprefix(codecs.BOM_UTF8).startswith(b"{"):
        with suppress(ValueError, RecursionError):
            json.loads(first)
            renamed = Spooled(path.rename(path.with_suffix(".jsonl")), name)
            weakref.finalize(renamed, renamed.path.unlink, missing_ok=True)
            spooled = renamed
    _IN_USE[status.st_dev, status.st_ino] = spooled
    return spooled


def suffix_of(path: Path) -> str:
    """The suffix that shows the format, in lower case: ``.csv`` for both ``a.csv`` and ``a.csv.gz``."""
    suffixes = [s.lower() for s in path.suffixes]
    while suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def require_file(path: Path, kind: str = "file") -> Path:
    """Returns ``path`` if it is a file that is not empty, or a pipe; else raises a ``UserError`` about a ``kind``."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path}: no such {kind}; check its name and folder") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({reason(error)})") from None
    if stat.S_ISDIR(status.st_mode):
        raise UserError(f"{path}: is a folder; give a file")
    if stat.S_ISREG(status.st_mode) and status.st_size == 0:
        raise UserError(f"{path}: the file is empty; give a file with text in it")
    return path


def path_of(file: File) -> Path:
    """The path to read: the file itself, or the temporary file of a pipe."""
    return file.path if isinstance(file, Spooled) else file


def _open_zstd(path: Path) -> BinaryIO:
    require_packages(f"{path}: a file compressed by zstd", "train", "pyarrow")
    import pyarrow

    return BufferedReader(pyarrow.input_stream(str(path), compression="zstd"), _BLOCK)


COMPRESSED: dict[str, Callable[[Path], Any]] = {
    ".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open, ".zst": _open_zstd,
}  # fmt: skip


@contextmanager
def open_plain(file: File) -> Iterator[BinaryIO]:
    """Opens the bytes of a file, unpacked if it is packed; errors of reading them become a one-line ``UserError``."""
    path = require_file(path_of(file))
    packed = path.suffix.lower()
    try:
        opener: Callable[[Path], Any] = COMPRESSED.get(packed) or partial(Path.open, mode="rb")
        with opener(path) as stream:
            yield stream
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        if packed in COMPRESSED:
            raise UserError(
                f"{file}: damaged or not a {packed} file ({reason(error)}); fetch it or pack it again"
            ) from None
        raise UserError(f"{file}: cannot be read ({reason(error)})") from None


@contextmanager
def open_text(file: File) -> Iterator[TextIOWrapper]:
    """Opens the characters of a text file, with line feeds as line ends and without byte-order mark.

    Raises:
        UserError: as `open_plain`; and for bytes that are not text in the encoding of the file, naming the line.
    """
    encoding = encoding_of(file)
    try:
        with open_plain(file) as stream, TextIOWrapper(stream, "utf-8-sig" if encoding == UTF_8 else encoding) as text:
            yield text
    except UnicodeError:
        where = byte = ""
        with open_plain(file) as stream:
            for number, line in enumerate(stream if encoding == UTF_8 else (), start=1):
                try:
                    line.decode()
                except UnicodeDecodeError as error:
                    where, byte = f", line {number}", f" (byte 0x{line[error.start]:02x} at column {error.start + 1})"
                    break
        raise UserError(
            f"{file}{where}: not {encoding.upper()} text{byte}; convert the file to UTF-8, for instance with iconv"
        ) from None


def read_lines(file: File, *, records: bool = False) -> Iterator[tuple[int, str]]:
    r"""Reads lines with their numbers (from 1), without line end and byte-order mark.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a.txt.gz"
        >>> _ = path.write_bytes(gzip.compress(b"one\ntwo\n"))
        >>> list(read_lines(path))
        [(1, 'one'), (2, 'two')]

    Args:
        file: plain or packed, in UTF-8 or in the encoding that `encoding_of` detects.
        records: a line may hold a whole document (``MAX_RECORD_CHARACTERS``).

    Raises:
        UserError: for a missing or empty file, bytes that are not text in its encoding, a damaged archive, or a line of
            more than ``MAX_LINE_CHARACTERS`` characters.
    """
    longest = MAX_RECORD_CHARACTERS if records else MAX_LINE_CHARACTERS
    number = 0
    with open_text(file) as text:
        while line := text.readline(longest + 2):
            number += 1
            if "\0" in line:
                raise UserError(
                    f"{file}, line {number}: holds a NUL byte, so this is not UTF-8 text; give a text file in UTF-8"
                )
            line = line.removesuffix("\n")
            if len(line) > longest:
                fix = "split the document" if records else "put one sentence on each line"
                raise UserError(f"{file}, line {number}: more than {longest:,} characters in one line; {fix}")
            yield number, line


def read_text(file: File) -> str:
    """Reads a whole text file, with line feeds as line ends; see `open_text`."""
    with open_text(file) as text:
        return text.read()


def read_bytes(file: File) -> bytes:
    """Reads a whole file, unpacked."""
    with open_plain(file) as stream:
        return stream.read()


def read_objects(path: File) -> Iterator[tuple[int, dict[str, Any]]]:
    """Reads JSON objects with their line numbers (from 1), one object per line; blank lines are skipped.

    A text in place of an object is an object with ``text``.

    Raises:
        UserError: see ``read_lines``; and for a line that is not valid JSON, or not an object.
    """
    for number, line in read_lines(path, records=True):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            cause = reason(error).partition(": line 1")[0]
            raise UserError(
                f"{path}, line {number}: not valid JSON ({cause}); one object per line is expected"
            ) from None
        if isinstance(record, str):
            record = {"text": record}
        if not isinstance(record, dict):
            raise UserError(f"{path}, line {number}: a JSON object per line is expected, not {type(record).__name__}")
        yield number, record


def encoding_of(file: File) -> str:
    """The encoding of a text file, detected once for each version of the file; see `detect_encoding`.

    Raises:
        UserError: for a missing or empty file.
    """
    path = require_file(path_of(file))
    if not path.is_file():  # a pipe can be read once only
        return UTF_8
    facts = path.stat()
    return _encoding(path, facts.st_size, facts.st_mtime_ns)


@lru_cache(maxsize=1_024)
def _encoding(path: Path, size: int, changed: int) -> str:
    with suppress(UserError), open_plain(path) as stream:  # reported where the file is read
        return detect_encoding(iter(lambda: stream.read(_BLOCK), b""))
    return UTF_8


def detect_encoding(parts: Iterable[bytes]) -> str:
    r"""Detects the encoding of a text from blocks of its bytes; reads on until a byte outside ASCII decides.

    A byte-order mark says it; else bytes that are UTF-8 are. A file that is mostly UTF-8 counts as UTF-8, so that its
    damaged line is reported and not guessed. Then comes what HTML or XML declares, and last the code page that
    charset-normalizer detects; of Windows' pages of Latin letters cp1252, unless it names a language of another one.
    The result is ``utf-8`` also for bytes that are not text.

    Example:
        >>> detect_encoding(["Zündung".encode()]), detect_encoding([b"\xff\xfeZ\0"])
        ('utf-8', 'utf-16')
        >>> detect_encoding(["Die Zündung läuft nicht – Größe, Nässe".encode("cp1252")])
        'cp1252'
    """
    blocks = iter(parts)
    first = next(blocks, b"")
    for mark, encoding in _MARKS:
        if first.startswith(mark):
            return encoding
    if b"\0" in first:  # UTF-16 without a byte-order mark has them at every second byte
        even, odd = first[::2].count(0), first[1::2].count(0)
        if even + odd >= len(first) / 5 and max(even, odd) > 9 * min(even, odd):
            return "utf-16-le" if odd > even else "utf-16-be"
        return UTF_8
    sample = b"" if first.isascii() else first
    for block in blocks if len(sample) < 2 * _LOOKED_AT else ():
        if sample or not block.isascii():
            sample += block
            if len(sample) >= 2 * _LOOKED_AT:
                break
    try:
        codecs.getincrementaldecoder(UTF_8)().decode(sample)
    except UnicodeDecodeError:
        if 2 * sum(map(len, _MULTIBYTE.findall(sample))) < len(_HIGH.findall(sample)):
            return _declared(first[:2_048], sample) or _code_page(sample)
    return UTF_8


def _declared(head: bytes, sample: bytes) -> str:
    """The encoding that an HTML or XML file declares in its first lines, if its bytes can be decoded with it."""
    if head.lstrip()[:1] == b"<" and (match := _DECLARED.search(head)):
        with suppress(LookupError, UnicodeDecodeError):
            name = codecs.lookup(match[1].decode("ascii")).name
            sample[: sample.rfind(b"\n") + 1 or None].decode(name)
            return "cp1252" if name == "iso8859-1" else name
    return ""


def _code_page(sample: bytes) -> str:
    from charset_normalizer import from_bytes

    lines = b"\n".join(line for line in sample.split(b"\n") if not line.isascii())[:_LOOKED_AT]
    best = from_bytes(lines, cp_isolation=_CODE_PAGES).best()
    if best is None or len(_CONTROL.findall(lines)) > len(lines) / 100:  # not text
        return UTF_8
    text = str(best)
    others = {letter for letter in text if not letter.isascii()}
    if all(word.isascii() for word in re.findall(r"[^\W\d_]{2,}", text)) and not others <= _PUNCTUATION:
        return UTF_8  # a single odd byte is no evidence
    return _LATIN.get(best.language, "cp1252") if best.encoding in ("cp1252", *_LATIN.values()) else str(best.encoding)
