"""Reads lines of a text file, plain or compressed, with errors that name the file and the line."""

from __future__ import annotations

import bz2
import codecs
import gzip
import json
import lzma
import math
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from opencse.environment import require_packages
from opencse.errors import UserError, reason
from opencse.text.files.encodings import UTF_8, detect_encoding
from opencse.text.files.pipes import Spooled

File = Path | Spooled
MARKDOWN = (".md", ".markdown")
COMPRESSED = (".gz", ".xz", ".bz2", ".zst")
MAX_LINE_CHARACTERS = 100_000
MAX_RECORD_CHARACTERS = 10_000_000
"""Largest number of characters in a line of a table, or in an object, which may hold a whole document."""
MAX_FILE_CHARACTERS = 200_000_000
"""Largest number of characters in a file that is read as a whole, such as a web page or a JSON object."""
_RECORDS = (".jsonl", ".csv", ".tsv")
_BLOCK = 1 << 20
_SMALL = 512
"""Packed bytes that are read at a time from a damaged file."""
MAX_GROWTH = 100
"""How many times its packed size a compressed file may unpack to, beyond the first ``UNPACKED_FREELY`` bytes."""
UNPACKED_FREELY = 1 << 22


class _Unpacker(Protocol):
    """What unpacks the members of a compressed file."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


def suffix_of(path: Path) -> str:
    """The suffix that shows the format, in lower case: ``.csv`` for both ``a.csv`` and ``a.csv.gz``."""
    suffixes = [s.lower() for s in path.suffixes]
    while suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def require_file(path: Path) -> Path:
    """Returns ``path`` if it is a file that is not empty, or a pipe; else raises a ``UserError``."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path}: no such file; check its name and folder") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({reason(error)})") from None
    if stat.S_ISDIR(status.st_mode):
        raise UserError(f"{path}: is a folder; give a file")
    if stat.S_ISREG(status.st_mode) and status.st_size == 0:
        raise _empty(path)
    return path


def path_of(file: File) -> Path:
    """The path to read: the file itself, or the temporary file of a pipe."""
    return file.path if isinstance(file, Spooled) else file


def encoding_of(file: File) -> str:
    """The encoding of a text file, detected once for each version of the file; see `detect_encoding`.

    Raises:
        UserError: for a missing or empty file.
    """
    path = require_file(path_of(file))
    if not path.is_file():  # a pipe can be read once only
        return UTF_8
    with reading(file):
        return _encoding(path, *_version(path))


def _version(path: Path) -> tuple[int, int]:
    facts = path.stat()
    return facts.st_size, facts.st_mtime_ns


@lru_cache(maxsize=1_024)
def _encoding(path: Path, size: int, changed: int) -> str:
    return detect_encoding(_blocks(path))


def _blocks(path: Path) -> Iterator[bytes]:
    """The unpacked bytes of the file, as far as they can be read; damage is reported when the file is read."""
    remaining = _most_unpacked(path)
    with suppress(EOFError, lzma.LZMAError, zlib.error, OSError), _open(path) as stream:
        while remaining > 0 and (block := stream.read(_BLOCK)):
            remaining -= len(block)
            yield block


def read_lines(file: File, *, records: bool = False) -> Iterator[tuple[int, str]]:
    r"""Reads lines with their numbers (from 1), without line end and byte-order mark.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a.txt.gz"
        >>> _ = path.write_bytes(gzip.compress(b"one\ntwo\n"))
        >>> list(read_lines(path))
        [(1, 'one'), (2, 'two')]

    Args:
        file: plain or compressed, in UTF-8 or in the encoding that `encoding_of` detects.
        records: a line may hold a whole document (``MAX_RECORD_CHARACTERS``), as always in csv, tsv and jsonl.

    Raises:
        UserError: for a missing or empty file, bytes that are not text in its encoding, a damaged archive or one that
            unpacks to more than ``MAX_GROWTH`` times its size, or a line of more than ``MAX_LINE_CHARACTERS``
            characters (``MAX_RECORD_CHARACTERS`` in a table or of objects).
    """
    path = require_file(path_of(file))
    number, unpacked = 0, 0
    longest = MAX_RECORD_CHARACTERS if records or suffix_of(path) in _RECORDS else MAX_LINE_CHARACTERS
    encoding = encoding_of(file)
    with reading(file, lambda: number), _text(path, encoding) as text:
        most = _most_unpacked(path)
        while True:
            try:
                line = text.readline(longest + 2).removeprefix("" if number else "\ufeff")
                if not line.isascii():
                    line.encode()
            except UnicodeDecodeError:
                raise _undecodable(file, number + 1, encoding) from None
            except UnicodeEncodeError:
                raise _undecodable(file, number + 1, encoding, line.encode(errors="surrogateescape")) from None
            if not line:
                break
            number += 1
            unpacked += len(line)
            if unpacked > most:
                raise _bomb(file, f"line {number}")
            if "\0" in line:
                raise _with_nul(file, number)
            line = line.removesuffix("\n")
            if len(line) > longest:
                raise _too_long(file, number, longest)
            yield number, line
    if number == 0 and not path.is_file():
        raise _empty(file)


def _text(path: Path, encoding: str) -> TextIOWrapper:
    """The characters of a file, with line feeds as line ends; bytes that are not UTF-8 as surrogates."""
    return TextIOWrapper(_open(path), encoding, "surrogateescape" if encoding == UTF_8 else "strict", newline=None)


def read_blocks(file: File) -> Iterator[str]:
    """Reads a text file in blocks of characters, regardless of lines; line ends become line feeds.

    Raises:
        UserError: see `read_lines`.
    """
    path = require_file(path_of(file))
    encoding = encoding_of(file)
    unpacked, line = 0, 1
    with reading(file, lambda: line - 1), _text(path, encoding) as text:
        most = _most_unpacked(path)
        try:
            while block := text.read(_BLOCK // 16):
                unpacked += len(block)
                if unpacked > most:
                    raise _bomb(file, f"line {line}")
                if (nul := block.find("\0")) >= 0:
                    raise _with_nul(file, line + block.count("\n", 0, nul))
                block.encode()
                yield block.removeprefix("" if unpacked > len(block) else "\ufeff")
                line += block.count("\n")
        except UnicodeError:
            for _ in read_lines(file, records=True):  # which names the line
                pass
            raise _undecodable(file, line, encoding) from None


def read_text(file: File) -> str:
    """Reads a whole text file, with line feeds as line ends.

    Raises:
        UserError: see `read_lines`; and for one of more than ``MAX_FILE_CHARACTERS`` characters.
    """
    blocks: list[str] = []
    characters = 0
    for block in read_blocks(file):
        blocks.append(block)
        characters += len(block)
        if characters > MAX_FILE_CHARACTERS:
            raise UserError(f"{file}: more than {MAX_FILE_CHARACTERS:,} characters in one document; split the file")
    return "".join(blocks)


def read_bytes(file: File, most: int) -> bytes:
    """Reads a whole file, unpacked.

    Raises:
        UserError: for a missing, empty or damaged one, or more than ``most`` bytes.
    """
    path = require_file(path_of(file))
    with reading(file), _open(path) as stream:
        content = stream.read(most + 1)
    if len(content) > min(most, _most_unpacked(path)):
        raise (
            _bomb(file, "") if len(content) <= most else UserError(f"{file}: more than {most:,} bytes; split the file")
        )
    return content


def open_plain(file: File) -> BinaryIO:
    """Opens the bytes of a file, unpacked if it is compressed; use it within `reading`."""
    return _open(require_file(path_of(file)))


@contextmanager
def reading(file: File, lines_read: Callable[[], int] | None = None) -> Iterator[None]:
    """Turns errors of reading ``file`` in the block into a one-line ``UserError``.

    Args:
        file: what is read.
        lines_read: how many of its lines were read so far; None: it is not read by lines.
    """
    try:
        yield
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        suffix = path_of(file).suffix.lower()
        lines = 0 if lines_read is None else lines_read()
        if suffix in COMPRESSED and lines_read is not None:
            lines = _lines_before_damage(path_of(file))
        at = f", after line {lines}" if lines else ""
        if suffix in COMPRESSED:
            raise UserError(
                f"{file}{at}: damaged or not a {suffix} file ({reason(error)}); fetch it or pack it again"
            ) from None
        raise UserError(f"{file}{at}: cannot be read ({reason(error)})") from None


def _lines_before_damage(path: Path) -> int:
    """The number of lines that can be unpacked from a damaged file; readers stop earlier, at the end of a block."""
    if not path.is_file():
        return 0
    decoder = codecs.getincrementaldecoder(_encoding(path, *_version(path)))("replace")
    return sum(decoder.decode(block).count("\n") for block in _unpacked(path))


def _unpacked(path: Path) -> Iterator[bytes]:
    """The unpacked bytes of a file as far as it is sound, in small blocks."""
    unpackers: dict[str, Callable[[], _Unpacker]] = {
        ".gz": lambda: zlib.decompressobj(31),
        ".xz": lzma.LZMADecompressor,
        ".bz2": bz2.BZ2Decompressor,
    }
    new = unpackers.get(path.suffix.lower())
    remaining = _most_unpacked(path)
    with suppress(EOFError, lzma.LZMAError, zlib.error, OSError):
        if new is None:
            with _open(path) as stream:
                while remaining > 0 and (block := stream.read(_SMALL)):
                    remaining -= len(block)
                    yield block
            return
        unpacker = new()
        with path.open("rb") as stream:
            while remaining > 0 and (packed := stream.read(_SMALL)):
                while packed:
                    block = unpacker.decompress(packed)
                    remaining -= len(block)
                    yield block
                    packed = unpacker.unused_data if unpacker.eof else b""
                    unpacker = new() if unpacker.eof else unpacker


def read_objects(path: File) -> Iterator[tuple[int, dict[str, Any]]]:
    """Reads JSON objects with their line numbers (from 1), one object per line; blank lines are skipped.

    A text in place of an object is an object with ``text``, as in `opencse.text.files.json_files.read_json`.

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
            raise UserError(
                f"{path}, line {number}: not valid JSON ({cause}); one object per line is expected"
            ) from None
        if isinstance(record, str):
            record = {"text": record}
        if not isinstance(record, dict):
            raise UserError(f"{path}, line {number}: a JSON object per line is expected, not {type(record).__name__}")
        yield number, record


def _most_unpacked(path: Path) -> float:
    """Largest number of bytes that ``path`` may unpack to; a few packed kilobytes can be made to fill any memory."""
    if path.suffix.lower() not in COMPRESSED:
        return math.inf
    return max(UNPACKED_FREELY, MAX_GROWTH * path.stat().st_size)


def _open(path: Path) -> BinaryIO:
    match path.suffix.lower():
        case ".gz":
            return cast("BinaryIO", gzip.open(path, "rb"))
        case ".xz":
            return cast("BinaryIO", lzma.open(path, "rb"))
        case ".bz2":
            return cast("BinaryIO", bz2.open(path, "rb"))
        case ".zst":
            require_packages(f"{path}: a file compressed by zstd", "train", "pyarrow")
            import pyarrow

            return BufferedReader(pyarrow.input_stream(str(path), compression="zstd"), 1 << 20)
        case _:
            return path.open("rb")


def _bomb(file: File, where: str) -> UserError:
    at = f", {where}" if where else ""
    return UserError(
        f"{file}{at}: unpacks to more than {MAX_GROWTH} times its {path_of(file).stat().st_size:,} "
        "bytes, which text hardly does; if this is intended, unpack it and give the plain file"
    )


def _with_nul(file: File, line: int) -> UserError:
    return UserError(f"{file}, line {line}: holds a NUL byte, so this is not UTF-8 text; give a text file in UTF-8")


def _undecodable(file: File, number: int, encoding: str, raw: bytes = b"") -> UserError:
    at = ""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        at = f" (byte 0x{raw[error.start]:02x} at column {error.start + 1})"
    return UserError(
        f"{file}, line {number}: not {encoding.upper()} text{at}; convert the file to UTF-8, for instance with iconv"
    )


def _too_long(path: File, number: int, longest: int) -> UserError:
    fix = "put one sentence on each line" if longest == MAX_LINE_CHARACTERS else "split the document"
    return UserError(f"{path}, line {number}: more than {longest:,} characters in one line; {fix}")


def _empty(path: File) -> UserError:
    return UserError(f"{path}: the file is empty; give a file with text in it")
