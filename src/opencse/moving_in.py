"""Moves finished files into a folder that may hold others, so that a process killed at any time leaves no half result.

Files are written to a work folder inside the folder and moved when all of them are complete (`moving_in`). The next
call recognises a work folder that a killed process left, and removes it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from opencse import io
from opencse.errors import UserError

_MOVED = ".moved.json"


@contextmanager
def moving_in(folder: Path, *, last: Sequence[str] = ()) -> Iterator[Path]:
    """Gives a folder inside ``folder`` to write to; after the block its content is moved into ``folder``.

    Killed at any time, ``folder`` holds its earlier content, or is recognised by the next call, which removes the files
    of the interrupted move. On an exception in the block nothing is moved; a folder that was made is removed again.

    Args:
        folder: made if it does not exist.
        last: names that are removed from ``folder`` first and moved in last, in reverse order, because ``folder``
            cannot be opened without them.

    Raises:
        UserError: if another process is writing there.
        OSError: if it cannot be written.
    """
    new_folders = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_unfinished(folder)
        with tempfile.TemporaryDirectory(dir=folder, prefix=io.WRITING, ignore_cleanup_errors=True) as name:
            work = Path(name)
            descriptor = os.open(work / _MOVED, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                with contextlib.suppress(OSError):  # a file system without locks
                    io.lock(descriptor)
                yield work
                names = sorted(path.name for path in work.iterdir() if path.name != _MOVED)
                os.write(descriptor, json.dumps(names).encode())
                os.fsync(descriptor)
                try:
                    _move(work, folder, [one for one in names if one not in last], last)
                except BaseException:
                    for one in half_moved(work):
                        io.remove(folder / one)
                    raise
            finally:
                os.close(descriptor)
                with contextlib.suppress(OSError):
                    _empty(work)
    finally:
        remove_empty(new_folders)


def remove_unfinished(folder: Path) -> None:
    """Removes unfinished files of a killed process from ``folder``: work folders, and files of an interrupted move.

    Only a folder that `moving_in` made is a work folder, which the file in it shows; others belong to the user.

    Raises:
        UserError: if the process is still running.
    """
    for work in work_folders(folder):
        _require_dead(folder, work)
        for name in half_moved(work):
            io.remove(folder / name)
        _empty(work)
        shutil.rmtree(work)


def _move(work: Path, folder: Path, names: Sequence[str], last: Sequence[str]) -> None:
    for name in last:
        (folder / name).unlink(missing_ok=True)
    for name in names:
        target = folder / name
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        (work / name).replace(target)
        for path in (target, *(target.rglob("*") if target.is_dir() else ())):
            io.sync(path)
    io.sync(folder)
    for name in reversed(last):
        if (work / name).exists():
            io.sync(work / name)
            (work / name).replace(folder / name)
    io.sync(folder)


def half_moved(work: Path) -> list[str]:
    """The names that a process was moving from a work folder when it was killed; empty before and after the move."""
    try:
        names = json.loads((work / _MOVED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    if not isinstance(names, list) or not all(isinstance(one, str) and Path(one).name == one for one in names):
        return []
    return names if any(os.path.lexists(work / name) for name in names) else []


def work_folders(folder: Path) -> list[Path]:
    """The folders in ``folder`` that `moving_in` made: with its file in them, or empty, as before that file is made."""
    return [
        work
        for work in folder.glob(f"{io.WRITING}*")
        if work.is_dir() and not work.is_symlink() and ((work / _MOVED).is_file() or not any(work.iterdir()))
    ]


def _empty(work: Path) -> None:
    """Removes the content of a work folder except the file that marks it, which is removed last."""
    for path in work.iterdir():
        if path.name != _MOVED:
            io.remove(path)


def _require_dead(folder: Path, work: Path) -> None:
    try:
        descriptor = os.open(work / _MOVED, os.O_RDWR)
    except OSError:
        return
    try:
        io.lock(descriptor)
    except BlockingIOError:
        raise UserError(f"{folder}: another process is writing there; wait for it, or choose another --out") from None
    except OSError:
        return
    finally:
        os.close(descriptor)


def remove_empty(folders: Iterable[Path]) -> None:
    """Removes the empty ones of ``folders``, the innermost first."""
    for one in folders:
        with contextlib.suppress(OSError):
            one.rmdir()
