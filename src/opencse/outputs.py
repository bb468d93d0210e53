"""Protects the user's files: nothing that commands write replaces or deletes them.

- An output that is also an input is always refused (`require_apart`).
- An existing path is written to only where the same command wrote it before, which its content shows (a manifest, the
  keys of a record), or with ``--overwrite`` where the content cannot show it (`require_absent`).
- Unfinished files of a killed process are recognised, and removed by the next one (`moving_in`).
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from opencse import io
from opencse.errors import UserError, reason

LOCK = "run.lock"
"""The file by which a process keeps others out of the folder of a run."""

_MOVED = ".moved.json"


@runtime_checkable
class Located(Protocol):
    """Anything with a location that is read, for instance a `opencse.text.readers.Source`."""

    @property
    def location(self) -> str:
        """A path, a pattern, or the name of a Hub data set."""


def paths_of(*inputs: object) -> list[Path]:
    """The files and folders of this machine among the inputs of a command.

    Example:
        >>> paths_of("opencse-mini", None, ["a text", "another"])
        []

    Args:
        inputs: paths, patterns, ``words:FILE``, names (of models, data sets, suites), things with a ``location``, or
            None. Lists of texts are no paths: pass each path of a list by itself.
    """
    paths: list[Path] = []
    for one in inputs:
        name = one.location if isinstance(one, Located) else one
        if not isinstance(name, str | Path) or not str(name):
            continue
        path = Path(str(name).removeprefix("words:"))
        with contextlib.suppress(OSError, ValueError):
            if os.path.lexists(path):
                paths.append(path)
            elif glob.has_magic(str(path)):
                paths += [Path(name) for name in glob.iglob(str(path), recursive=True)]  # noqa: PTH207 - any pattern
    return paths


def require_apart(
    out: str | Path,
    *,
    read: Iterable[Path] = (),
    models: Iterable[Path] = (),
    option: str = "--out",
    replaces: bool = True,
) -> None:
    """Refuses an output that is also an input, by whatever path it is reached.

    Refused are the same file or folder (also through links, hard links and relative paths), a path inside a folder that
    is read, and, where the content of a folder is replaced, a folder that contains an input.

    Args:
        out: file or folder to write.
        read: files and folders that are read; see `paths_of`.
        models: folders of models; a new file or folder inside one of them is allowed.
        option: the option that names ``out``, for the message.
        replaces: whether files in the folder ``out`` are replaced.

    Raises:
        UserError: naming both.
    """
    target, exists, data = Path(out), os.path.lexists(out), list(read)
    for source in (*data, *models):
        if _same(target, source):
            raise UserError(f"{out}: is also an input ({source}); choose another {option}")
        if replaces and exists and _inside(source, target):
            raise UserError(f"{out}: the input {source} is in it; choose another {option}")
    for folder in data:
        if folder.is_dir() and _inside(target, folder):
            raise UserError(f"{out}: is inside the input {folder}; choose another {option}")


def require_absent(file: str | Path, *, overwrite: bool, option: str = "--out") -> None:
    """Refuses an existing file unless ``overwrite`` is set; for content that does not show which command wrote it.

    Raises:
        UserError: saying how to replace it.
    """
    path = Path(file)
    if path.is_dir():
        raise UserError(f"{file}: is a folder; give the path of a file as {option}")
    if not overwrite and os.path.lexists(path):
        raise UserError(f"{file}: exists already; replace it with --overwrite, or choose another {option}")


def require_json(file: Path, is_own: Callable[[Any], bool], *, option: str = "--json") -> None:
    """Refuses an existing file that is not an earlier result of the same command.

    Args:
        file: the file that results will be written to.
        is_own: whether a value read from the file is such a result.
        option: the option that names ``file``, for the message.

    Raises:
        UserError: saying what to do.
    """
    if not os.path.lexists(file):
        return
    if file.is_file():
        with contextlib.suppress(OSError, ValueError, RecursionError):
            with file.open("rb") as stream:
                first = stream.read(1)
            if first in (b"{", b"[") and is_own(json.loads(file.read_text(encoding="utf-8"))):
                return
    elif not file.is_dir() and not file.is_symlink():
        raise UserError(f"{file}: cannot be written (is not a regular file); give the path of a file")
    fault = "cannot be written (is a folder)" if file.is_dir() else "exists and is no result of this command"
    raise UserError(f"{file}: {fault}; choose another {option}")


def has_keys(value: object, keys: Iterable[str]) -> bool:
    """Whether a value read from JSON is an object with all of ``keys``, or a list of such objects."""
    required = set(keys)
    objects = value if isinstance(value, list) else [value]
    return bool(objects) and all(isinstance(one, dict) and required <= one.keys() for one in objects)


def has_list(value: object, name: str, keys: Iterable[str]) -> bool:
    """Whether a value read from JSON is an object whose ``name`` is a list of objects with all of ``keys``."""
    inner = value.get(name) if isinstance(value, dict) else None
    return isinstance(inner, list) and (not inner or has_keys(inner, keys))


def has_fields(value: object, cls: Any) -> bool:  # noqa: ANN401 - any dataclass
    """Whether a value read from JSON is an object with all fields of the dataclass ``cls``."""
    return has_keys(value, [field.name for field in fields(cls)])


def names_in(folder: Path) -> set[str]:
    """The names in ``folder``, without unfinished files of our killed processes; empty if it does not exist.

    Raises:
        UserError: if it is a file or cannot be read.
    """
    try:
        names = {path.name for path in folder.iterdir()}
    except FileNotFoundError:
        if folder.is_symlink():
            raise UserError(f"{folder}: is a link to a missing path; choose another --out") from None
        if any(one.name == ".." and not one.exists() for one in (folder, *folder.parents)):
            # once its parents are made, it could be a folder that holds files
            raise UserError(f"{folder}: a folder before '..' does not exist; write the path without '..'") from None
        return set()
    except NotADirectoryError:
        if folder.is_file() or folder.is_symlink():
            raise UserError(f"{folder}: is a file; choose another --out") from None
        raise UserError(f"{folder}: the folder cannot be made (a part of its path is a file)") from None
    except OSError as error:
        raise UserError(f"{folder}: cannot be read ({reason(error)}); choose another --out") from None
    works = set(_work_folders(folder))
    ours = {name for name in names if name == LOCK or folder / name in works or io.unfinished_name(folder / name)}
    return names - ours - {name for work in works for name in _half_moved(work)}


def require_empty(folder: Path, *, model_names: Iterable[str] = ("modules.json", "config.json", "run.json")) -> None:
    """Refuses a folder that is not empty; for results that are written at once.

    Raises:
        UserError: saying what to do.
    """
    names = names_in(folder)
    if names & set(model_names):
        raise UserError(f"{folder}: holds a model already; choose another --out")
    if names:
        raise UserError(foreign_files_message(folder, names))


def foreign_files_message(folder: Path, names: Iterable[str], option: str = "--out") -> str:
    """The message of the error for a folder that holds files of something else."""
    listed = sorted(names)
    more = ", ..." if len(listed) > 3 else ""
    return f"{folder}: is not empty ({', '.join(listed[:3])}{more}); choose a new or empty folder for {option}"


@contextmanager
def made_folder(folder: Path) -> Iterator[None]:
    """Makes a folder for the block; folders that were made for it and stay empty are removed afterwards.

    Raises:
        UserError: if it cannot be made.
    """
    new_folders = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        remove_empty(new_folders)
        raise UserError(f"{folder}: the folder cannot be made ({reason(error)}); name another one") from None
    try:
        yield
    finally:
        remove_empty(new_folders)


def remove_empty(folders: Iterable[Path]) -> None:
    """Removes the empty ones of ``folders``, the innermost first."""
    for one in folders:
        with contextlib.suppress(OSError):
            one.rmdir()


@contextmanager
def held_lock(file: Path, busy: str) -> Iterator[None]:
    """Keeps other processes out of the folder of ``file``; a lock file alone in its folder is removed afterwards.

    Args:
        file: the lock file; made if it does not exist.
        busy: the message where another process holds it.

    Raises:
        UserError: if another process holds it, or the file system has no locks.
        OSError: if the file cannot be made.
    """
    descriptor = _take(file, busy)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if [one.name for one in file.parent.iterdir()] == [file.name]:
                file.unlink()
        os.close(descriptor)


def _take(file: Path, busy: str) -> int:
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            io.lock(descriptor)
            if os.path.samestat(os.fstat(descriptor), file.stat()):
                return descriptor
        except FileNotFoundError:
            pass  # its holder removed it between our opening and locking it
        except BlockingIOError:
            os.close(descriptor)
            raise UserError(f"{file.parent}: {busy}") from None
        except OSError as error:
            os.close(descriptor)
            raise UserError(f"{file.parent}: cannot be locked ({reason(error)}); use a local disk") from None
        os.close(descriptor)


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
                    for one in _half_moved(work):
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
    for work in _work_folders(folder):
        _require_dead(folder, work)
        for name in _half_moved(work):
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


def _half_moved(work: Path) -> list[str]:
    """The names that a process was moving from a work folder when it was killed; empty before and after the move."""
    try:
        names = json.loads((work / _MOVED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    if not isinstance(names, list) or not all(isinstance(one, str) and Path(one).name == one for one in names):
        return []
    return names if any(os.path.lexists(work / name) for name in names) else []


def _work_folders(folder: Path) -> list[Path]:
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


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return _real(one) == _real(other)


def _inside(path: Path, folder: Path) -> bool:
    return _real(folder) in _real(path).parents


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
