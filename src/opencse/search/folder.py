"""The folder of an index: which database is current, which files belong to the index, and the lock of its writer.

``index.json`` names the current database, so that a new index replaces the old one in one step. ``files.txt`` lists
every file of the index, each before it is created; no other file in the folder is ever deleted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from opencse.crash_safe import append_lines
from opencse.errors import UserError, reason
from opencse.folder_kinds import is_index, kind_of_folder
from opencse.io import remove, write_text
from opencse.outputs import foreign_files_message, held_lock, names_in
from opencse.search.row_database import damage_error, how_to_rebuild, write_errors

FORMAT = 1
"""Version of the folder's format."""
NAMES, LOCK, BUILDING = "index.json", ".lock", "building.json"
FILES = "files.txt"
_HEADER = "# the files of this index; opencse removes no others"
_OWN = re.compile(r"(rows-\w+\.sqlite|vectors-\w+\.f32|engine-\w+\.faiss|words-[\w-]+(\.tmp)?)")
_LONG = 1 << 16
"""Bytes of the list from which it is rewritten without files that no longer exist."""


def current_database(folder: Path) -> str:
    """The file name of the current database of the index in ``folder``.

    Raises:
        UserError: if there is no index, or it cannot be read.
    """
    path = folder / NAMES
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        version, name = content["format"], content["rows"]
    except (FileNotFoundError, NotADirectoryError):
        if (folder / BUILDING).exists():
            raise UserError(
                f"{folder}: this index is not finished; run the same opencse index build again to continue"
            ) from None
        if kind := kind_of_folder(folder):
            raise UserError(f"{folder}: is {kind}, not an index; make one with opencse index build") from None
        raise UserError(f"{folder}: holds no index (no {NAMES}); make one with opencse index build") from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path}: damaged or not of an index ({reason(error)}); {how_to_rebuild(folder)}") from None
    if version != FORMAT:
        raise UserError(
            f"{path}: an index of format {version!r}, and this version reads format {FORMAT}; {how_to_rebuild(folder)}"
        )
    if not isinstance(name, str) or Path(name).name != name:
        raise UserError(f"{path}: damaged (it names no file in its folder); {how_to_rebuild(folder)}")
    if not (folder / name).is_file():
        raise damage_error(folder, f"{name} is missing")
    return name


def set_current_database(folder: Path, name: str) -> None:
    """Makes the database ``name`` the current one."""
    write_text(folder / NAMES, json.dumps({"format": FORMAT, "rows": name}) + "\n")


def require_own(folder: Path) -> None:
    """Refuses a folder that is neither new, nor empty, nor of an index; changes nothing.

    Raises:
        UserError: naming the fix.
    """
    names = names_in(folder, "INDEX") - {LOCK}
    if names and not (names & {NAMES, BUILDING} and is_index(folder)) and not listed(folder):
        raise UserError(foreign_files_message(folder, names, "INDEX"))


def listed(folder: Path) -> set[str]:
    """File names in the list of the index's files, whether they exist or not; empty without a list."""
    try:
        lines = (folder / FILES).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return set()
    if not lines or lines[0] != _HEADER:
        return set()
    return {line for line in lines if _OWN.fullmatch(line)}


def add_to_list(folder: Path, *names: str) -> None:
    """Adds names to the list of the index's files, before the files are created.

    Raises:
        OSError: if the list cannot be written.
    """
    new = [name for name in dict.fromkeys(names) if name and name not in listed(folder)]
    if not new:
        return
    path = folder / FILES
    if not path.exists():  # written in one step: a folder with half a list would not be recognised as an index
        write_text(path, "".join(f"{line}\n" for line in (_HEADER, *new)))
        return
    append_lines(path, new)


def remove_others(folder: Path, keep: Iterable[str]) -> None:
    """Deletes the listed files of older and unfinished indexes, except ``keep``."""
    remaining = set(keep)
    for name in listed(folder) - remaining:
        for path in (folder / name, folder / f"{name}-wal", folder / f"{name}-shm"):
            with suppress(OSError):  # another process may be deleting it too
                remove(path)
    path = folder / FILES
    if path.exists() and path.stat().st_size > _LONG:
        write_text(path, "".join(f"{line}\n" for line in (_HEADER, *sorted(remaining - {""}))))


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Locks ``folder`` against other writers; the lock file is deleted if nothing else is in the folder.

    Raises:
        UserError: if another process is writing the index, or the folder cannot be written.
    """
    with write_errors(folder), held_lock(folder / LOCK, "another process is writing this index; wait for it"):
        yield
