"""The folder of an index: its files, the SQLite database with manifest and rows, and their checksums.

``index.json`` names the current database, so that a new index replaces the old one in one step. The database has the
rows and names the vector file next to it. A position is a row number of that file; positions of deleted rows stay there
until `opencse.search.writer.Writer.compact` writes it again without them. The names of all files have twelve random
digits; no other file in the folder is ever deleted.

The manifest has a checksum (CRC-32) of the vector file, so that damage is noticed.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import uuid
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from opencse.arrays import Vectors
from opencse.errors import OutdatedError, UserError, reason
from opencse.files import held_lock, remove, remove_unfinished, write_text
from opencse.folder_kinds import is_index, kind_of_folder
from opencse.modules.similarity import HybridWeight, first_of
from opencse.outputs import foreign_files_message, names_in
from opencse.search.result import IndexFacts
from opencse.search.rows import Value

_BLOCK = 1 << 22
"""Bytes that are read at a time."""
_WAIT = 30.0
"""Seconds to wait for another process's transaction."""
_FILE_NAME = r"^[\w-]+\.\w+$"
"""File names without a folder."""


FORMAT = 1
"""Version of the folder's format."""
NAMES, LOCK, BUILDING = "index.json", ".lock", "building.json"
_DIGITS = "[0-9a-f]{12}"
_OWN = re.compile(rf"rows-{_DIGITS}\.sqlite(-wal|-shm)?|(vectors|engine)-{_DIGITS}\.(f32|faiss)|words-{_DIGITS}-[\w-]+")


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
    names = {name for name in names_in(folder, "INDEX") if name != LOCK and not _OWN.fullmatch(name)}
    if names and not is_index(folder):
        raise UserError(foreign_files_message(folder, names, "INDEX"))


def remove_others(folder: Path, keep: Iterable[str]) -> None:
    """Deletes the files of older and unfinished indexes, except ``keep``."""
    remove_unfinished(folder)
    kept = tuple(name for name in keep if name)
    for path in folder.iterdir():
        if _OWN.fullmatch(path.name) and not path.name.startswith(kept):
            with suppress(OSError):  # another process may be deleting it too
                remove(path)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Locks ``folder`` against other writers; the lock file is deleted if nothing else is in the folder.

    Raises:
        UserError: if another process is writing the index, or the folder cannot be written.
    """
    with write_errors(folder), held_lock(folder / LOCK, "another process is writing this index; wait for it"):
        yield


class Manifest(IndexFacts):
    """What an index consists of; stored in its database and changed together with its rows.

    Attributes:
        model_files: a hash of the files that the encoder was opened from; empty where that is not known.
        vectors: name of the vector file.
        vectors_sum: checksum of the rows of the vector file in use; None in an index of an earlier version.
        slots: rows of the vector file in use, deleted ones included.
        passages: whether any document has more than one row.
        next_id: the id of the next row that is added without one.
        engine: name of the file of the approximate index, or None.
        source: fingerprint of the text that the index was built from; None after a change.
        taken: rows of that text that are in the index while it is being built; None: it is complete.
        hybrid_weight: the weight of the vectors in a hybrid search; None: the default.
        hybrid_source: what it was fitted on, for the user.
    """

    model_files: str = ""
    vectors: str = Field(pattern=_FILE_NAME)
    vectors_sum: int | None = None
    slots: int = 0
    passages: bool = False
    next_id: int = 0
    engine: str | None = Field(default=None, pattern=_FILE_NAME)
    source: str | None = None
    taken: int | None = None
    hybrid_weight: float | None = Field(default=None, ge=0, le=1)
    hybrid_source: str = ""

    @property
    def hybrid(self) -> HybridWeight:
        """The weight of the vectors in a hybrid search, and where it comes from."""
        if self.hybrid_weight is None:
            return HybridWeight()
        return HybridWeight(self.hybrid_weight, self.hybrid_source)

    def prepared(self, vectors: Vectors) -> NDArray[np.float32]:
        """The model's (n, d) vectors as the index compares them: their first dimensions, L2-normalised for the cosine.

        Vectors that are truncated already stay as they are.
        """
        return self.similarity.prepared(first_of(vectors, self.dimension))


class StoredRow(NamedTuple):
    """One row as it is in the database: a text, or one passage (``part``) of a document.

    Attributes:
        position: the position of its vector in the vector file.
        id: the id of the row or document.
        part: number of the passage in its document, from 0.
        text: the text of the row.
        values: metadata, in the order of the manifest's columns.
    """

    position: int
    id: str
    part: int
    text: str
    values: tuple[Value, ...]


HAS_ID = "id IN (SELECT value FROM json_each(?))"
"""SQL condition for rows with certain ids, passed as a JSON list."""
_UNAVAILABLE = (
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM,
)  # fmt: skip
"""SQLite's codes where nothing can be written: it creates a file of shared memory even to read."""


def create_database(folder: Path, name: str, manifest: Manifest) -> None:
    """Creates an empty database called ``name`` and its empty vector file."""
    db = sqlite3.connect(folder / name, isolation_level=None)
    try:
        # Others read the version before while one process writes.
        db.execute("PRAGMA journal_mode = WAL")
        # What is committed is on the disk, even if the power fails next.
        db.execute("PRAGMA synchronous = FULL")
        db.execute("BEGIN IMMEDIATE")
        db.execute("CREATE TABLE facts (facts TEXT NOT NULL)")
        db.execute("INSERT INTO facts VALUES (?)", [manifest.model_dump_json()])
        columns = "".join(f", {column}" for column in sql_columns(manifest.columns).values())
        db.execute(
            # The place is the row's number in the file of vectors.
            f"CREATE TABLE rows (place INTEGER PRIMARY KEY, id TEXT, part INTEGER, text TEXT{columns})"
        )
        db.execute("CREATE UNIQUE INDEX row_id ON rows (id, part)")
        db.execute("COMMIT")
    finally:
        db.close()
    (folder / manifest.vectors).touch()


def connect(path: Path, *, write: bool) -> sqlite3.Connection:
    """Opens the database at ``path``; in a read-only folder it is read including what its log still holds."""
    mode = "mode=rw" if write or os.access(path.parent, os.W_OK) else "mode=ro"
    log = path.with_name(f"{path.name}-wal")
    if mode == "mode=ro" and not (log.is_file() and log.stat().st_size):
        mode += "&immutable=1"  # otherwise SQLite cannot open a database with a log where it cannot write
    with read_errors(path.parent):
        db = _open(path, mode)
        if write:
            db.execute("PRAGMA synchronous = FULL")
            return db
        try:
            db.execute("SELECT 1 FROM facts").fetchone()
        except sqlite3.DatabaseError as error:
            db.close()
            if _code(error) not in _UNAVAILABLE:
                raise
            if not (log.is_file() and log.stat().st_size):
                return _open(path, "mode=ro&immutable=1")
            db = _open(path, "mode=rw")
            db.execute("PRAGMA locking_mode = EXCLUSIVE")  # keeps the log's index in memory, not in a file
        return db


def _open(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=_WAIT, isolation_level=None, check_same_thread=False
    )


def read_manifest(db: sqlite3.Connection) -> Manifest:
    """Reads the manifest of the index."""
    row = db.execute("SELECT facts FROM facts").fetchone()
    if row is None:
        raise sqlite3.DatabaseError("it has no manifest")
    return Manifest.model_validate_json(row[0])


def write_manifest(db: sqlite3.Connection, manifest: Manifest) -> None:
    """Replaces the manifest of the index."""
    db.execute("UPDATE facts SET facts = ?", [manifest.model_dump_json()])


def map_vectors(folder: Path, manifest: Manifest) -> NDArray[np.float32]:
    """Memory-maps the vector file, (slots, d).

    Raises:
        FileNotFoundError: if it does not exist.
        OutdatedError: if it is too short.
    """
    path = folder / manifest.vectors
    if not manifest.slots:
        return np.zeros((0, manifest.dimension), dtype=np.float32)
    size, needed = path.stat().st_size, 4 * manifest.slots * manifest.dimension
    if size < needed:
        raise damage_error(folder, f"{path.name} has {size:,} bytes, {needed:,} are needed")
    return np.memmap(path, dtype="<f4", mode="r", shape=(manifest.slots, manifest.dimension))


def sql_columns(columns: Iterable[str]) -> dict[str, str]:
    """The SQL name of each column of metadata, by its name.

    Example:
        >>> sql_columns(["year", "language"])
        {'year': 'c0', 'language': 'c1'}
    """
    return {name: f"c{number}" for number, name in enumerate(columns)}


def unique_name(prefix: str, suffix: str) -> str:
    """A file name that no other file has."""
    return f"{prefix}{uuid.uuid4().hex[:12]}{suffix}"


def how_to_rebuild(folder: Path) -> str:
    """The fix for an index that cannot be used, within a message.

    >>> how_to_rebuild(Path("my index"))
    "rebuild it with: opencse index build 'my index' MODEL TEXT --overwrite"
    """
    return f"rebuild it with: opencse index build {quote(str(folder))} MODEL TEXT --overwrite"


def damage_error(folder: Path, problem: str) -> OutdatedError:
    """The error for a damaged index."""
    return OutdatedError(f"{folder}: damaged ({problem}); copy the whole folder again, or {how_to_rebuild(folder)}")


@contextmanager
def write_errors(folder: Path) -> Iterator[None]:
    """Reports a folder that cannot be written, or a damaged database, as a `UserError` of one line."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({reason(error)})") from None
    except sqlite3.DatabaseError as error:
        if _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise damage_error(folder, reason(error)) from None
        if not isinstance(error, sqlite3.OperationalError):
            raise
        raise UserError(f"{folder}: cannot be written ({reason(error)})") from None


@contextmanager
def read_errors(folder: Path) -> Iterator[None]:
    """Reports a damaged database, or one that cannot be read now (a full disk, no permission), as a `UserError`."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):
            raise damage_error(folder, reason(error)) from None
        raise UserError(
            f"{folder}: cannot be read now ({reason(error)}); is the disk full, or another process writing it?"
        ) from None
    except (sqlite3.DatabaseError, ValidationError) as error:
        raise damage_error(folder, reason(error)) from None


def _code(error: sqlite3.DatabaseError) -> int:
    """SQLite's code of an error; bytes that are not UTF-8 have none, and count as damage."""
    missing = sqlite3.SQLITE_CORRUPT if isinstance(error, sqlite3.OperationalError) else 0
    # The lowest byte is SQLite's primary code.
    return int(getattr(error, "sqlite_errorcode", missing)) & 0xFF


def weight_fields(weight: HybridWeight) -> dict[str, Any]:
    """The fields of the manifest that hold the weight of a hybrid search."""
    return {"hybrid_weight": weight.value, "hybrid_source": weight.source}


def file_sum(path: Path, size: int, begin: int, value: int) -> int:
    """The checksum of the first ``size`` bytes of a file, of which the first ``begin`` have ``value``."""
    with path.open("rb") as stream:
        stream.seek(begin)
        while block := stream.read(min(_BLOCK, size - stream.tell())):
            value = zlib.crc32(block, value)
    return value
