"""The folder of an index: which database in it counts, and who may write.

``index.json`` names the database, so that a new index takes the old one's place in one step.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from opencse.errors import UserError, reason
from opencse.io import lock, write_text
from opencse.search.database import refused

FORMAT = 1
NAMES, LOCK, BUILDING = "index.json", ".lock", "building.json"
OWN = ("rows-*.sqlite*", "vectors-*.f32", "engine-*.faiss", "words-*")
"""Patterns of the files that make an index, beside `NAMES`."""


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


def remove_others(folder: Path, keep: Iterable[str]) -> None:
    """Removes the files of older and unfinished indexes."""
    kept = set(keep)
    for pattern in OWN:
        for path in folder.glob(pattern):
            if path.name.removesuffix("-wal").removesuffix("-shm") not in kept:
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)  # another process may be at it too
                else:
                    path.unlink(missing_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps every other writer from ``folder``.

    Raises:
        UserError: if another process writes it, or it cannot be written.
    """
    with refused(folder):
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            lock(descriptor)
        except BlockingIOError:
            raise UserError(f"{folder}: another process is writing this index; wait for it") from None
        except OSError as error:
            raise UserError(f"{folder}: cannot be locked ({reason(error)}); use a local disk") from None
        yield
    finally:
        os.close(descriptor)
