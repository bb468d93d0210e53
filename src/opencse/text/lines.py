"""Lines of a text file, plain or compressed, with errors that name the file and the line."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from opencse.errors import UserError

COMPRESSED = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
MAX_LINE_CHARACTERS = 100_000


def suffix_of(path: Path) -> str:
    """The suffix that tells the format: ``.csv`` for both ``a.csv`` and ``a.csv.gz``; lower case."""
    suffixes = [s.lower() for s in path.suffixes]
    while suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def require_file(path: Path) -> Path:
    """``path`` if it is a file that holds something; a ``UserError`` if not."""
    if path.is_dir():
        raise UserError(f"{path}: is a folder; give a file")
    if not path.exists():
        raise UserError(f"{path}: no such file")
    if path.stat().st_size == 0:
        raise UserError(f"{path}: the file is empty; one sentence a line is expected")
    return path


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Pairs of line number (from 1) and line, without line end and byte-order mark.

    Raises:
        UserError: for a missing or empty file, bytes that are not UTF-8 text, a damaged archive,
            or a line of more than ``MAX_LINE_CHARACTERS`` characters.
    """
    require_file(path)
    opener = COMPRESSED.get(path.suffix.lower())
    try:
        with _open(path) as stream:
            for number, raw in enumerate(stream, start=1):
                yield number, _decode(raw, path, number)
    except (OSError, EOFError, lzma.LZMAError) as error:
        damaged = "damaged or not a compressed file" if opener else "cannot be read"
        raise UserError(f"{path}: {damaged} ({error})") from None


def _open(path: Path) -> IO[bytes]:
    opener = COMPRESSED.get(path.suffix.lower())
    return opener(path, "rb") if opener is not None else path.open("rb")  # type: ignore[return-value]


def _decode(raw: bytes, path: Path, number: int) -> str:
    if b"\0" in raw:
        raise UserError(f"{path}, line {number}: holds a NUL byte, so this is not a text file")
    try:
        line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}, line {number}: not UTF-8 text (byte 0x{raw[error.start]:02x} at column {error.start + 1}); "
            "convert the file to UTF-8, for instance with iconv"
        ) from None
    if len(line) > MAX_LINE_CHARACTERS:
        raise UserError(
            f"{path}, line {number}: {len(line):,} characters in one line (at most {MAX_LINE_CHARACTERS:,}); "
            "put one sentence on each line"
        )
    return line
