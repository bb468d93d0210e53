"""The two files of an index: a SQLite database of its rows and facts, and beside it the vectors, mapped.

A place is a row of the vector file. Deleted places stay there, dead, until `Writer.compact` writes the file anew.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from opencse.errors import OutdatedError, UserError, reason
from opencse.modules.similarity import Similarity
from opencse.search.rows import Value
from opencse.settings import Settings

_WAIT = 30.0
_PLAIN = r"^[\w-]+\.\w+$"
"""Names of files in the folder itself."""


class Facts(Settings):
    """What is true of an index; kept in its database, changed together with its rows.

    Attributes:
        version: counts the changes.
        model: what the encoder was called.
        fingerprint: of the encoder; see `opencse.encoder.fingerprint`.
        pooling: what replaced the model's own, or None.
        query_prompt: put before queries.
        document_prompt: put before the texts of the index.
        dimension: of a vector.
        similarity: what vectors are compared by; the model's function.
        kind: flat, hnsw or ivfpq.
        columns: metadata, by name the kind of value: number, text or mixed.
        max_length: ids of the longest passage; None: texts are never cut.
        overlap: ids that two passages of a document may share.
        vectors: the vector file.
        slots: its rows that count, dead ones included.
        rows: living rows.
        passages: whether any document has more than one row.
        next_id: the next id given to a row without.
        engine: the file of the approximate index, or None.
        source: fingerprint of the text it was built from.
        taken: rows of that text that are in it, while it is built; None: it is finished.
        language: whose stems words are reduced to in a hybrid search; None: words are as they are.
    """

    version: int = 0
    model: str
    fingerprint: str
    pooling: str | None = None
    query_prompt: str = ""
    document_prompt: str = ""
    dimension: int
    similarity: Similarity = Similarity.COSINE
    kind: str = "flat"
    columns: dict[str, str] = Field(default_factory=dict)
    max_length: int | None = None
    overlap: int = 0
    vectors: str = Field(pattern=_PLAIN)
    slots: int = 0
    rows: int = 0
    passages: bool = False
    next_id: int = 0
    engine: str | None = Field(default=None, pattern=_PLAIN)
    source: str | None = None
    taken: int | None = None
    language: str | None = None


_AGAIN = "copy the whole folder again, or build the index again"
_NOT_NOW = (
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM,
)  # fmt: skip
"""What SQLite says where nothing can be written: it makes a file of shared memory even to read."""
HAS_ID = "id IN (SELECT value FROM json_each(?))"
"""The SQL condition for the rows with some ids, given as a JSON list."""
Stored = tuple[int, str, int, str, tuple[Value, ...]]
"""Place, id, part, text, and the values in the order of the columns."""


def create(folder: Path, name: str, facts: Facts) -> None:
    """Makes a new, empty database called ``name`` and its file of vectors."""
    db = sqlite3.connect(folder / name, isolation_level=None)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("BEGIN IMMEDIATE")
        db.execute("CREATE TABLE facts (facts TEXT NOT NULL)")
        db.execute("INSERT INTO facts VALUES (?)", [facts.model_dump_json()])
        make_table(db, "rows", facts.columns)
        make_key(db)
        db.execute("COMMIT")
    finally:
        db.close()
    (folder / facts.vectors).touch()


def connect(path: Path, *, write: bool) -> sqlite3.Connection:
    """The database at ``path``; in a folder that cannot be written it is read with what its log still holds."""
    how = "mode=rw" if write or os.access(path.parent, os.W_OK) else "mode=ro"
    log = path.with_name(f"{path.name}-wal")
    if how == "mode=ro" and not (log.is_file() and log.stat().st_size):
        how += "&immutable=1"  # SQLite cannot open a database with a log otherwise where it cannot write
    with damaged(path.parent):
        db = _opened(path, how)
        if write:
            db.execute("PRAGMA synchronous = FULL")
            return db
        try:
            db.execute("SELECT 1 FROM facts").fetchone()
        except sqlite3.DatabaseError as error:
            db.close()
            if _code(error) not in _NOT_NOW:
                raise
            if not (log.is_file() and log.stat().st_size):
                return _opened(path, "mode=ro&immutable=1")
            db = _opened(path, "mode=rw")
            db.execute("PRAGMA locking_mode = EXCLUSIVE")  # the log's index is in memory then, not in a file
        return db


def _opened(path: Path, how: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{how}", uri=True, timeout=_WAIT, isolation_level=None, check_same_thread=False
    )


def read_facts(db: sqlite3.Connection) -> Facts:
    """What the database says of itself."""
    row = db.execute("SELECT facts FROM facts").fetchone()
    if row is None:
        raise sqlite3.DatabaseError("it says nothing of itself")
    return Facts.model_validate_json(row[0])


def write_facts(db: sqlite3.Connection, facts: Facts) -> None:
    """Replaces what the database says of itself."""
    db.execute("UPDATE facts SET facts = ?", [facts.model_dump_json()])


def mapped(folder: Path, facts: Facts) -> NDArray[np.float32]:
    """The vector file, (slots, d); see `Store.vectors`."""
    path = folder / facts.vectors
    if not facts.slots:
        return np.zeros((0, facts.dimension), dtype=np.float32)
    size = path.stat().st_size
    if size < 4 * facts.slots * facts.dimension:
        raise OutdatedError(
            f"{folder}: damaged ({path.name} has {size:,} bytes, {4 * facts.slots * facts.dimension:,} are needed); "
            "copy the whole folder again, or build the index again"
        )
    return np.memmap(path, dtype="<f4", mode="r", shape=(facts.slots, facts.dimension))


def make_table(db: sqlite3.Connection, name: str, columns: Iterable[str]) -> None:
    """A table for rows, empty."""
    more = "".join(f", {column}" for column in sql_columns(columns).values())
    db.execute(f"CREATE TABLE {name} (place INTEGER PRIMARY KEY, id TEXT, part INTEGER, text TEXT, crc INTEGER{more})")


def make_key(db: sqlite3.Connection) -> None:
    """An id and part may be there but once."""
    with contextlib.suppress(sqlite3.OperationalError):
        db.execute("DROP INDEX row_id")
    db.execute("CREATE UNIQUE INDEX row_id ON rows (id, part)")


def has_sums(db: sqlite3.Connection) -> bool:
    """Whether rows have checksums; those of an index made before there were any have none."""
    return any(column[1] == "crc" for column in db.execute("PRAGMA table_info(rows)"))


def sql_columns(columns: Iterable[str]) -> dict[str, str]:
    """The SQL name of each column of metadata."""
    return {name: f"c{number}" for number, name in enumerate(columns)}


def new_name(before: str, after: str) -> str:
    """A file name that no other file has."""
    return f"{before}{uuid.uuid4().hex[:12]}{after}"


def _code(error: sqlite3.DatabaseError) -> int:
    """SQLite's code of an error; bytes in the file that are no text have none, and are damage."""
    none = sqlite3.SQLITE_CORRUPT if isinstance(error, sqlite3.OperationalError) else 0
    return int(getattr(error, "sqlite_errorcode", none)) & 0xFF


def damage(folder: Path, what: str) -> OutdatedError:
    """The error for an index whose database cannot be right."""
    return OutdatedError(f"{folder}: damaged ({what}); {_AGAIN}")


@contextmanager
def refused(folder: Path) -> Iterator[None]:
    """Tells in one line of a folder that cannot be written, or whose database is damaged."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({reason(error)})") from None
    except sqlite3.DatabaseError as error:
        if _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise damage(folder, reason(error)) from None
        if not isinstance(error, sqlite3.OperationalError):
            raise
        raise UserError(f"{folder}: cannot be written ({reason(error)})") from None


@contextmanager
def damaged(folder: Path) -> Iterator[None]:
    """Tells in one line of a database that is damaged, or that cannot be read now (a full disk, no rights)."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):
            raise damage(folder, reason(error)) from None
        raise UserError(
            f"{folder}: cannot be read now ({reason(error)}); is the disk full, or another process writing it?"
        ) from None
    except (sqlite3.DatabaseError, ValidationError) as error:
        raise damage(folder, reason(error)) from None
