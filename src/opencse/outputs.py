"""Protects the user's files: nothing that commands write replaces or deletes them.

- An output that is also an input is always refused (`require_apart`).
- An existing file is replaced with ``--overwrite`` alone (`require_absent`), and a folder that is not empty is written
  to with ``--overwrite``, or where the command continues its own work in it.
- Unfinished files of a killed process are recognised, and removed by the next one (`opencse.files`).
"""

from __future__ import annotations

import contextlib
import glob
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, runtime_checkable

from opencse import files
from opencse.errors import UserError, reason, shortened
from opencse.folder_kinds import kind_of_folder

LOCK = "run.lock"
"""The file by which a process keeps others out of the folder of a run."""


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
    """Refuses an output that is also an input, by whatever path it is reached, or that could not be written.

    Every command calls it before it reads or computes anything. Refused are the same file or folder (also through
    links, hard links and relative paths), a path inside a folder that is read, and, where the content of a folder is
    replaced, a folder that contains an input.

    Args:
        out: file or folder to write.
        read: files and folders that are read; see `paths_of`.
        models: folders of models; a new file or folder inside one of them is allowed.
        option: the option that names ``out``, for the message.
        replaces: whether files in the folder ``out`` are replaced.

    Raises:
        UserError: naming both, or why it cannot be written.
    """
    target, exists, data = Path(out), os.path.lexists(out), list(read)
    for source in (*data, *models):
        if is_same(target, source):
            raise UserError(f"{out}: is also an input ({source}); choose another {option}")
        if replaces and exists and _inside(source, target):
            raise UserError(f"{out}: the input {source} is in it; choose another {option}")
    for folder in data:
        if not folder.is_file() and _inside(target, folder):
            raise UserError(f"{out}: is inside the input {folder}; choose another {option}")
    require_writable(out, remedy=f"choose another {option}")


def require_writable(path: str | Path, *, remedy: str = "") -> None:
    """Refuses a file or folder that could not be written, before the long work whose results it will hold.

    Args:
        path: the file or folder; it need not exist, and its missing folders would be made.
        remedy: what to do, for the message.

    Raises:
        UserError: with the reason.
    """
    try:
        target = Path(os.path.realpath(path))
        folder = target if target.is_dir() else files.nearest_existing(target.parent)
        for part in target.relative_to(folder).parts:  # a name that is too long is noticed where its folder exists
            with contextlib.suppress(FileNotFoundError):
                (folder / part).lstat()
        tempfile.TemporaryFile(dir=folder).close()
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.strerror:
            error = OSError(error.errno, error.strerror)  # without the name of the temporary file
        fault = f"cannot be written ({reason(error)})"
        raise UserError(f"{shortened(str(path), 200)}: {fault}{remedy and f'; {remedy}'}") from None


def require_absent(file: str | Path, *, overwrite: bool, option: str = "--out") -> None:
    """Refuses a folder, and an existing file unless ``overwrite`` is set.

    Raises:
        UserError: saying how to replace it.
    """
    path = Path(file)
    if path.is_dir():
        raise UserError(f"{file}: is a folder; give the path of a file as {option}")
    if not overwrite and os.path.lexists(path):
        raise UserError(f"{file}: exists already; replace it with --overwrite, or choose another {option}")


def names_in(folder: Path, option: str = "--out") -> set[str]:
    """The names in ``folder``, without unfinished files of our killed processes; empty if it does not exist.

    Args:
        folder: where something is to be written.
        option: the option or argument that names it, for messages.

    Raises:
        UserError: if it is a file or cannot be read.
    """
    try:
        names = {path.name for path in folder.iterdir()}
    except FileNotFoundError:
        if folder.is_symlink():
            raise UserError(f"{folder}: is a link to a missing path; choose another {option}") from None
        if any(one.name == ".." and not one.exists() for one in (folder, *folder.parents)):
            # once its parents are made, it could be a folder that holds files
            raise UserError(f"{folder}: a folder before '..' does not exist; write the path without '..'") from None
        return set()
    except NotADirectoryError:
        if folder.is_file() or folder.is_symlink():
            raise UserError(f"{folder}: is a file; choose another {option}") from None
        raise UserError(f"{folder}: the folder cannot be made (a part of its path is a file)") from None
    except OSError as error:
        raise UserError(f"{folder}: cannot be read ({reason(error)}); choose another {option}") from None
    return names - {LOCK, *(path.name for path in files.unfinished(folder))}


def require_empty(folder: Path) -> None:
    """Refuses a folder that is not empty; for results that are written at once.

    Raises:
        UserError: saying what to do.
    """
    names = names_in(folder)
    if kind := kind_of_folder(folder):
        raise UserError(f"{folder}: holds {kind} already; choose another --out")
    if names:
        raise UserError(foreign_files_message(folder, names))


def require_new(folder: Path, *, overwrite: bool) -> None:
    """Refuses a folder that is not empty unless ``overwrite`` is set.

    Raises:
        UserError: saying what to do.
    """
    names = names_in(folder)
    if names and not overwrite:
        raise UserError(f"{foreign_files_message(folder, names)}, or write into this one with --overwrite")


def foreign_files_message(folder: Path, names: Iterable[str], option: str = "--out") -> str:
    """The message of the error for a folder that holds files of something else."""
    listed = sorted(names)
    more = ", ..." if len(listed) > 3 else ""
    return f"{folder}: is not empty ({', '.join(listed[:3])}{more}); choose a new or empty folder for {option}"


def is_same(one: Path, other: Path) -> bool:
    """Whether two paths are of one file or folder, also through links."""
    try:
        return one.samefile(other)
    except OSError:
        return _real(one) == _real(other)


def _inside(path: Path, folder: Path) -> bool:
    return _real(folder) in _real(path).parents


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
