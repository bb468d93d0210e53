"""The folder of an index: which database in it counts, which files are the index's own, and who may write.

``index.json`` names the database, so that a new index takes the old one's place in one step. ``files.txt`` lists every
file of the index, each before it is made: nothing else in the folder is ever removed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from opencse.crash_safe import append_lines
from opencse.errors import UserError, reason
from opencse.io import remove, write_text
from opencse.outputs import foreign, held_lock, names_in
from opencse.search.database import refused

FORMAT = 1
NAMES, LOCK, BUILDING = "index.json", ".lock", "building.json"
FILES = "files.txt"
_HEADER = "# the files of this index; opencse removes no others"
_OWN = re.compile(r"(rows-\w+\.sqlite|vectors-\w+\.f32|engine-\w+\.faiss|words-[\w-]+(\.tmp)?)")
_LONG = 1 << 16
"""Bytes of the list from which on it is written anew, without the files that are gone."""


def current(folder: Path) -> str:
    """The name of the database of the index in ``folder``.

    Raises:
        UserError: if there is none, or none that can be read.
    """
    path = folder / NAMES
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        form, name = found["format"], found["rows"]
    except (FileNotFoundError, NotADirectoryError):
        if (folder / BUILDING).exists():
            raise UserError(f"{folder}: this index is not finished; the same opencse index build goes on") from None
        raise UserError(f"{folder}: holds no index ({NAMES} is not there); make one with opencse index build") from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path}: damaged or not of an index ({reason(error)}); build the index again") from None
    if form != FORMAT:
        raise UserError(f"{path}: an index of format {form!r}, and this is for format {FORMAT}; build it again")
    if not isinstance(name, str) or Path(name).name != name:
        raise UserError(f"{path}: damaged (it names no file beside it); build the index again")
    if not (folder / name).is_file():
        raise UserError(f"{folder}: damaged ({name} is missing); copy the whole folder, or build the index again")
    return name


def point_to(folder: Path, rows: str) -> None:
    """From now on the index in ``folder`` is the one of database ``rows``."""
    write_text(folder / NAMES, json.dumps({"format": FORMAT, "rows": rows}) + "\n")


def require_own(folder: Path) -> None:
    """Refuses a folder that is neither new, nor empty, nor that of an index; touches nothing.

    Raises:
        UserError: saying what to do.
    """
    names = names_in(folder) - {LOCK}
    if names and not (names & {NAMES, BUILDING} and _is_index(folder)) and not listed(folder):
        raise UserError(foreign(folder, names, "INDEX"))


def _is_index(folder: Path) -> bool:
    """Whether ``index.json`` or ``building.json`` in it is that of an index, of any version."""
    for name in (NAMES, BUILDING):
        try:
            value = json.loads((folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(value, dict) and "rows" in value:
            return True
    return False


def listed(folder: Path) -> set[str]:
    """The names of the index's own files, there or not; none where there is no list."""
    try:
        lines = (folder / FILES).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return set()
    if not lines or lines[0] != _HEADER:
        return set()
    return {line for line in lines if _OWN.fullmatch(line)}


def note(folder: Path, *names: str) -> None:
    """Lists files as the index's own, before they are made.

    Raises:
        OSError: if the list cannot be written.
    """
    new = [name for name in dict.fromkeys(names) if name and name not in listed(folder)]
    if not new:
        return
    path = folder / FILES
    if not path.exists():  # whole or not at all: a folder with half of the list would be nobody's
        write_text(path, "".join(f"{line}\n" for line in (_HEADER, *new)))
        return
    append_lines(path, new)


def remove_others(folder: Path, keep: Iterable[str]) -> None:
    """Removes the files of older and unfinished indexes, of those that are listed."""
    kept = set(keep)
    for name in listed(folder) - kept:
        for path in (folder / name, folder / f"{name}-wal", folder / f"{name}-shm"):
            with suppress(OSError):  # another process may be at it too
                remove(path)
    path = folder / FILES
    if path.exists() and path.stat().st_size > _LONG:
        write_text(path, "".join(f"{line}\n" for line in (_HEADER, *sorted(kept - {""}))))


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps every other writer from ``folder``; the file for that is removed again where nothing else is in it.

    Raises:
        UserError: if another process writes it, or it cannot be written.
    """
    with refused(folder), held_lock(folder / LOCK, "another process is writing this index; wait for it"):
        yield
