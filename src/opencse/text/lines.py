"""Lines of a text file, plain or compressed, with errors that name the file and the line."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import math
import stat
import zlib
from collections.abc import Iterator
from io import BufferedIOBase, BufferedReader
from pathlib import Path
from typing import Any

from opencse.environment import require_packages
from opencse.errors import UserError, reason
from opencse.text.pipes import Spooled

File = Path | Spooled
MARKDOWN = (".md", ".markdown")
COMPRESSED = (".gz", ".xz", ".bz2", ".zst")
MAX_LINE_CHARACTERS = 100_000
MAX_RECORD_CHARACTERS = 10_000_000
"""Of a line of a table, or of an object, which may hold a whole document."""
_RECORDS = (".jsonl", ".csv", ".tsv")
MAX_GROWTH = 100
"""How many times its packed size a compressed file may unpack to, beyond the first ``UNPACKED_FREELY`` bytes."""
UNPACKED_FREELY = 1 << 22


def suffix_of(path: Path) -> str:
    """The suffix that tells the format: ``.csv`` for both ``a.csv`` and ``a.csv.gz``; lower case."""
    suffixes = [s.lower() for s in path.suffixes]
    while suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def require_file(path: Path) -> Path:
    """``path`` if it is a file that holds something, or a pipe; a ``UserError`` if not."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path}: no such file; check its name and folder") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({reason(error)})") from None
    if stat.S_ISDIR(found.st_mode):
        raise UserError(f"{path}: is a folder; give a file")
    if stat.S_ISREG(found.st_mode) and found.st_size == 0:
        raise _empty(path)
    return path


def read_lines(file: File) -> Iterator[tuple[int, str]]:
    """Pairs of line number (from 1) and line, without line end and byte-order mark.

    Raises:
        UserError: for a missing or empty file, bytes that are not UTF-8 text, a damaged archive or one that unpacks
            to more than ``MAX_GROWTH`` times its size, or a line of more than ``MAX_LINE_CHARACTERS`` characters
            (``MAX_RECORD_CHARACTERS`` in a table or of objects).
    """
    path = require_file(file.path if isinstance(file, Spooled) else file)
    number, unpacked = 0, 0
    longest = MAX_RECORD_CHARACTERS if suffix_of(path) in _RECORDS else MAX_LINE_CHARACTERS
    try:
        with _open(path) as stream:
            most = _most_unpacked(path)
            while raw := stream.readline(_bytes_of(longest)):
                number += 1
                unpacked += len(raw)
                if unpacked > most:
                    raise UserError(
                        f"{file}, line {number}: unpacks to more than {MAX_GROWTH} times its {path.stat().st_size:,} "
                        "bytes, which text hardly does; if it is meant, unpack it and give the plain file"
                    )
                yield number, _decode(raw, file, number, longest)
        if number == 0 and not path.is_file():
            raise _empty(file)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        if path.suffix.lower() in COMPRESSED:
            raise UserError(
                f"{file}, after line {number}: damaged or not a {path.suffix.lower()} file ({reason(error)}); "
                "fetch it or pack it again"
            ) from None
        raise UserError(f"{file}, after line {number}: cannot be read ({reason(error)})") from None


def read_objects(path: File) -> Iterator[tuple[int, dict[str, Any]]]:
    """Pairs of line number (from 1) and JSON object, of a file with one object a line; blank lines are skipped.

    Raises:
        UserError: see ``read_lines``; and for a line that is not valid JSON, or not an object.
    """
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            cause = reason(error).partition(": line 1")[0]
            raise UserError(f"{path}, line {number}: not valid JSON ({cause}); one object a line is expected") from None
        if not isinstance(record, dict):
            raise UserError(f"{path}, line {number}: a JSON object a line is expected, not {type(record).__name__}")
        yield number, record


def _most_unpacked(path: Path) -> float:
    """Bytes that may come out of ``path``; a few packed kilobytes can be made to fill any memory."""
    if path.suffix.lower() not in COMPRESSED:
        return math.inf
    return max(UNPACKED_FREELY, MAX_GROWTH * path.stat().st_size)


def _open(path: Path) -> BufferedIOBase:
    match path.suffix.lower():
        case ".gz":
            return gzip.open(path, "rb")
        case ".xz":
            return lzma.open(path, "rb")
        case ".bz2":
            return bz2.open(path, "rb")
        case ".zst":
            require_packages(f"{path}: a file compressed by zstd", "train", "pyarrow")
            import pyarrow

            return BufferedReader(pyarrow.input_stream(str(path), compression="zstd"), 1 << 20)
        case _:
            return path.open("rb")


def _decode(raw: bytes, path: File, number: int, longest: int) -> str:
    if b"\0" in raw:
        raise UserError(
            f"{path}, line {number}: holds a NUL byte, so this is not UTF-8 text; give a text file in UTF-8"
        )
    if len(raw) == _bytes_of(longest):
        raise _too_long(path, number, longest)
    try:
        line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}, line {number}: not UTF-8 text (byte 0x{error.object[error.start]:02x} at column "
            f"{error.start + 1}); convert the file to UTF-8, for instance with iconv"
        ) from None
    if len(line) > longest:
        raise _too_long(path, number, longest)
    return line


def _bytes_of(characters: int) -> int:
    """The most that a line may take: UTF-8 has at most 4 bytes a character; byte-order mark and line end."""
    return 4 * characters + 8


def _too_long(path: File, number: int, longest: int) -> UserError:
    mend = "put one sentence on each line" if longest == MAX_LINE_CHARACTERS else "cut the document"
    return UserError(f"{path}, line {number}: more than {longest:,} characters in one line; {mend}")


def _empty(path: File) -> UserError:
    return UserError(f"{path}: the file is empty; one sentence a line is expected")
