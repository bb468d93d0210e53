"""Writes files completely or not at all, locks them, and hashes their content."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opencse.errors import UserError

if TYPE_CHECKING:
    import numpy as np

WRITING = ".writing-"
"""The prefix of the name of every unfinished file or folder."""


def npy_header(dtype: np.dtype[Any], shape: Sequence[int]) -> bytes:
    """The header of an ``.npy`` file of ``shape`` (NumPy's format 1.0)."""
    import numpy as np

    header = BytesIO()
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": tuple(shape)}
    np.lib.format.write_array_header_1_0(header, described)
    return header.getvalue()


def nearest_existing(path: Path) -> Path:
    """``path`` itself, or the nearest folder above it that exists."""
    return next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())


def is_folder(value: object) -> bool:
    """Whether ``value`` is the path of an existing folder; False for a name that is too long for the system."""
    try:
        return isinstance(value, str | Path) and Path(value).is_dir()
    except OSError:  # reported where it is opened
        return False


def require_folder(path: Path, instead: str) -> None:
    """Refuses a path that is no folder; ``instead`` says what to give.

    Example:
        >>> require_folder(Path("/"), "give a folder")

    Raises:
        UserError: naming the path, and whether it is a file or not there.
    """
    if not path.is_dir():
        raise UserError(f"{path}: {'is a file' if path.exists() else 'no such folder'}; {instead}")


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Replaces a file atomically: gives a temporary path next to it, which is renamed to ``path`` after the block.

    Whatever happens, including a full disk and a kill, ``path`` holds either its earlier content or all of the new
    content. An exception in the block removes the unfinished file and does not change ``path``.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "numbers.txt"
        >>> with writing(path) as unfinished:
        ...     _ = unfinished.write_text("1 2 3")
        >>> path.read_text()
        '1 2 3'

    Raises:
        OSError: if it cannot be written.
    """
    unfinished = path.with_name(f"{WRITING}{os.getpid()}-{path.name}")
    try:
        yield unfinished
        sync(unfinished)
        unfinished.replace(path)
        sync(path.parent)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def unfinished_name(path: Path) -> str | None:
    """The name of the file that a killed process was writing as ``path``; None where `writing` made no such name."""
    process, dash, name = path.name.removeprefix(WRITING).partition("-")
    is_ours = path.name.startswith(WRITING) and process.isdigit() and dash and name
    return name if is_ours and path.is_file() and not path.is_symlink() else None


def write_text(path: Path, text: str) -> None:
    """Writes ``text`` to ``path`` in UTF-8; see `writing`."""
    with writing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def write_json(path: Path, value: object, *, allow_nan: bool = False) -> None:
    """Writes ``value`` to ``path`` as indented JSON; see `writing`.

    Raises:
        OSError: if it cannot be written.
        ValueError: for NaN and infinity, which JSON does not have, unless ``allow_nan``.
    """
    write_text(path, _json_text(value, allow_nan))


def write_new_json(path: Path, value: object, *, allow_nan: bool = False) -> None:
    """Writes ``value`` as `write_json` does, not atomically: for a folder that is moved into place later.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "config.json"
        >>> write_new_json(path, {"layers": 2})
        >>> json.loads(path.read_text())
        {'layers': 2}

    Raises:
        OSError: if it cannot be written.
        ValueError: for NaN and infinity, unless ``allow_nan``.
    """
    path.write_text(_json_text(value, allow_nan), encoding="utf-8")


def _json_text(value: object, allow_nan: bool) -> str:
    return json.dumps(value, indent=2, allow_nan=allow_nan) + "\n"


def remove(path: Path) -> None:
    """Removes a file, a link or a folder with its content, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    if path.is_dir() and os.name == "nt":  # Windows opens no folders
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


if sys.platform == "win32":
    import msvcrt

    def lock(descriptor: int) -> None:
        """Locks an open file for this process; the system releases the lock when the process ends, however it ends.

        Raises:
            BlockingIOError: if another process has locked it.
            OSError: on a file system without locks.
        """
        os.lseek(descriptor, 2**30, os.SEEK_SET)  # behind the content, which other processes may read
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            raise BlockingIOError from None
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)

else:
    import fcntl

    def lock(descriptor: int) -> None:
        """Locks an open file for this process; the system releases the lock when the process ends, however it ends.

        Raises:
            BlockingIOError: if another process has locked it.
            OSError: on a file system without locks.
        """
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def hash_json(value: object) -> str:
    """SHA-256 of plain values, as 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(value, ensure_ascii=True, allow_nan=False).encode()).hexdigest()


def hash_file(path: Path) -> str:
    """SHA-256 of a file's content, as 64 hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def hash_files(folder: Path, files: Iterable[Path]) -> str:
    """SHA-256 over the names (relative to ``folder``) and contents of ``files``, in the order of their names."""
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{hash_file(path)}\n".encode())
    return digest.hexdigest()
