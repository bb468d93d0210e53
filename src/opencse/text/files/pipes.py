"""Keeps text from a pipe, which can be read only once, in a temporary file for as long as it is needed."""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from opencse.errors import UserError, reason

STANDARD_INPUT = ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
_DESCRIPTORS = ("/dev/fd/", "/proc/self/fd/")
_PEEK = 1 << 20


@dataclass(frozen=True)
class Spooled:
    """The text that came through a pipe, in a temporary file.

    Attributes:
        path: a temporary file of the same bytes; its suffix shows the format. It is deleted with the object that
            `spool` returned (not with a copy in another process).
        name: the name of the pipe in messages.
    """

    path: Path
    name: str

    def __str__(self) -> str:
        return self.name


_IN_USE: weakref.WeakValueDictionary[tuple[int, int], Spooled] = weakref.WeakValueDictionary()
"""The texts of pipes that are still in use, by device and number of the pipe, since they cannot be read again."""


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


def spool(location: str, suffix: str = "") -> Spooled:
    """Reads the pipe at ``location`` to its end; further calls while the text is in use return the same object.

    Args:
        location: see `is_pipe`.
        suffix: of the format, if the pipe's name shows it. Else a pipe whose first line is a JSON object is read as
            jsonl, and any other as one sentence per line.

    Raises:
        UserError: if it cannot be read, is empty, or there is no room for it.
    """
    name = pipe_name(location)
    identity = _identity(location)
    if identity is not None and (in_use := _IN_USE.get(identity)) is not None:
        return in_use
    try:
        descriptor, temporary = tempfile.mkstemp(prefix="opencse-", suffix=suffix or ".txt")
    except OSError as error:
        raise UserError(f"{name}: no room to keep what comes through it ({reason(error)}); set TMPDIR") from None
    path = Path(temporary)
    try:
        with os.fdopen(descriptor, "wb") as target, _open(location) as stream:
            shutil.copyfileobj(stream, target)
        if path.stat().st_size == 0:
            raise UserError(f"{name}: it is empty; one sentence per line is expected")
        if not suffix and _is_jsonl(path):
            path = path.rename(path.with_suffix(".jsonl"))
    except OSError as error:
        path.unlink(missing_ok=True)
        raise UserError(
            f"{name}: cannot be read or kept in {path.parent} ({reason(error)}); make room there or set TMPDIR"
        ) from None
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    spooled = Spooled(path, name)
    weakref.finalize(spooled, path.unlink, missing_ok=True)
    if identity is not None:
        _IN_USE[identity] = spooled
    return spooled


def _identity(location: str) -> tuple[int, int] | None:
    """Device and number of a pipe, the same for all of its names; None if the system does not report them."""
    try:
        status = os.fstat(0) if location in STANDARD_INPUT else Path(location).stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def _open(location: str) -> BinaryIO:
    return os.fdopen(os.dup(0), "rb") if location in STANDARD_INPUT else Path(location).open("rb")


def _is_jsonl(path: Path) -> bool:
    with path.open("rb") as stream:
        first = stream.readline(_PEEK).removeprefix(b"\xef\xbb\xbf")
    if not first.startswith(b"{"):
        return False
    try:
        return isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False
