"""The folder of an index: rows in SQLite, vectors in a file beside it, and one place where a change becomes true.

``index.json`` names the database; the database says how much of which vector file counts. Vectors are appended and
synced first, then one SQLite transaction (write-ahead log, full sync) makes them part of the index, so that a kill at
any moment leaves the old or the new index. What a killed writer left beyond that is cut off by the next one.

A place is a row of the vector file. Deleted places stay there, dead, until `Writer.compact` writes the file anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from opencse.errors import UserError, reason
from opencse.io import lock, sync, write_text
from opencse.search.rows import Row, Value
from opencse.settings import Settings

FORMAT = 1
NAMES, LOCK, BUILDING = "index.json", ".lock", "building.json"
OWN = ("rows-*.sqlite*", "vectors-*.f32", "engine-*.faiss", "words-*")
"""Patterns of the files that make an index, beside `NAMES`."""
_WAIT = 30.0
_CHUNK = 8_192


class Facts(Settings):
    """What is true of an index; kept in its database, changed together with its rows.

    Attributes:
        version: counts the changes.
        model: what the encoder was called.
        fingerprint: of the encoder; see `opencse.encoder.fingerprint`.
        pooling: what replaced the model's own, or None.
        dimension: of a vector.
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
    """

    version: int = 0
    model: str
    fingerprint: str
    pooling: str | None = None
    dimension: int
    kind: str = "flat"
    columns: dict[str, str] = Field(default_factory=dict)
    max_length: int | None = None
    overlap: int = 0
    vectors: str
    slots: int = 0
    rows: int = 0
    passages: bool = False
    next_id: int = 0
    engine: str | None = None
    source: str | None = None
    taken: int | None = None


Stored = tuple[int, str, int, str, tuple[Value, ...]]
"""Place, id, part, text, and the values in the order of the columns."""


class Store:
    """A reader's view of an index; safe to use from several threads."""

    def __init__(self, folder: Path, rows: str) -> None:
        self.folder, self.name = folder, rows
        self._guard = threading.RLock()
        self._db = connect(folder / rows, write=False)

    @classmethod
    def open(cls, folder: Path) -> Store:
        """The index in ``folder``.

        Raises:
            UserError: if there is none, or it is damaged.
        """
        return cls(folder, current(folder))

    def close(self) -> None:
        """Lets go of the files."""
        self._db.close()

    @contextmanager
    def snapshot(self) -> Iterator[Facts]:
        """Within the block all reads are of one moment, whatever another process writes meanwhile."""
        with self._guard, damaged(self.folder):
            if self._db.in_transaction:  # within another block: of the same moment
                yield read_facts(self._db)
                return
            self._db.execute("BEGIN")
            try:
                yield read_facts(self._db)
            finally:
                self._db.execute("COMMIT")

    def vectors(self, facts: Facts) -> NDArray[np.float32]:
        """(slots, d) memory-mapped, L2-normalised.

        Raises:
            FileNotFoundError: if another process has written them anew since.
            UserError: if the file is cut short.
        """
        return mapped(self.folder, facts)

    def alive(self, facts: Facts) -> NDArray[np.int64] | None:
        """The living places, ascending; None where all are."""
        if facts.rows == facts.slots:
            return None
        return self.places("1", [])

    def places(self, condition: str, values: Sequence[Value]) -> NDArray[np.int64]:
        """The living places for which an SQL condition holds, ascending."""
        with self._guard, damaged(self.folder):
            found = self._db.execute(f"SELECT place FROM rows WHERE {condition} ORDER BY place", values)
            return np.fromiter((place for (place,) in found), dtype=np.int64)

    def select(self, condition: str, values: Sequence[Value], facts: Facts, rest: str = "") -> list[Stored]:
        """Rows for which an SQL condition holds, by place."""
        columns = "".join(f", {name}" for name in sql_columns(facts.columns).values())
        query = f"SELECT place, id, part, text{columns} FROM rows WHERE {condition} ORDER BY place {rest}"
        with self._guard, damaged(self.folder):
            return [(place, name, part, text, tuple(more))
                    for place, name, part, text, *more in self._db.execute(query, values)]  # fmt: skip

    def count_documents(self) -> int:
        """Different ids."""
        with self._guard, damaged(self.folder):
            return int(self._db.execute("SELECT count(DISTINCT id) FROM rows").fetchone()[0])

    def at(self, places: Iterable[int], facts: Facts) -> dict[int, Stored]:
        """The rows at some places."""
        wanted = json.dumps([int(place) for place in places])
        return {row[0]: row for row in self.select("place IN (SELECT value FROM json_each(?))", [wanted], facts)}


class Writer:
    """A change of an index in the making; nothing of it counts before `commit`."""

    def __init__(self, folder: Path, rows: str) -> None:
        self.folder = folder
        self._db = connect(folder / rows, write=True)
        with damaged(folder):
            self.facts = read_facts(self._db)
        self._before = self.facts
        self._vectors: Any = None
        self._stale: set[str] = set()

    def __enter__(self) -> Writer:
        self._db.execute("BEGIN IMMEDIATE")
        return self

    def __exit__(self, *_: object) -> None:
        if self._vectors is not None:
            self._vectors.close()
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")
        self._db.close()

    @property
    def compacted(self) -> bool:
        """Whether the vector file is another one than it was."""
        return self.facts.vectors != self._before.vectors

    def flush(self) -> None:
        """Lets what was appended be read from the file."""
        if self._vectors is not None:
            self._vectors.flush()

    def change(self, **facts: Any) -> None:  # noqa: ANN401 - the fields of Facts
        """Other facts, from the next `commit` on."""
        self.facts = Facts.model_validate({**self.facts.model_dump(), **facts})

    def append(self, rows: Sequence[tuple[Row, int]], vectors: NDArray[np.float32]) -> None:
        """Adds rows, each with its part, and their L2-normalised vectors.

        Raises:
            UserError: for an id and part that are there already.
        """
        facts = self.facts
        self._add_columns(rows)
        names = list(self.facts.columns)
        marks = ", ".join("?" * (4 + len(names)))
        next_id = facts.next_id
        place = facts.slots
        for row, part in rows:
            if row.id is None:
                raise RuntimeError("a row without an id reached the store")
            values = [row.metadata.get(name) for name in names]
            try:
                self._db.execute(f"INSERT INTO rows VALUES ({marks})", [place, row.id, part, row.text, *values])
            except sqlite3.IntegrityError:
                raise UserError(
                    f"{self.folder}: the id {row.id[:80]!r} is there already (or twice in what is added); "
                    "give every row its own, or replace those that are there"
                ) from None
            place += 1
            if row.id.isdecimal() and len(row.id) < 19:
                next_id = max(next_id, int(row.id) + 1)
        self._write(vectors)
        self.change(
            slots=place,
            rows=facts.rows + len(rows),
            next_id=next_id,
            passages=facts.passages or any(part for _, part in rows),
        )

    def remove(self, condition: str, values: Sequence[Value]) -> int:
        """Deletes the rows for which an SQL condition holds; how many."""
        done = self._db.execute(f"DELETE FROM rows WHERE {condition}", values).rowcount
        self.change(rows=self.facts.rows - done)
        return done

    def known(self, ids: Iterable[str]) -> set[str]:
        """Those of the ids that are there."""
        query = "SELECT DISTINCT id FROM rows WHERE id IN (SELECT value FROM json_each(?))"
        return {name for (name,) in self._db.execute(query, [json.dumps(list(ids))])}

    def compact(self) -> None:
        """Writes the vector file without its dead places."""
        found = self._db.execute("SELECT place FROM rows ORDER BY place")
        places = np.fromiter((place for (place,) in found), dtype=np.int64)
        self.flush()
        old = mapped(self.folder, self.facts)
        self._drop(self.facts.vectors)
        self.change(vectors=new_name("vectors-", ".f32"), slots=0)
        for start in range(0, len(places), _CHUNK):
            self._write(old[places[start : start + _CHUNK]])
        columns = "".join(f", {name}" for name in sql_columns(self.facts.columns).values())
        _make_table(self._db, "compacted", self.facts.columns)
        self._db.execute(
            f"INSERT INTO compacted SELECT row_number() OVER (ORDER BY place) - 1, id, part, text{columns} FROM rows"
        )
        self._db.execute("DROP TABLE rows")
        self._db.execute("ALTER TABLE compacted RENAME TO rows")
        _make_key(self._db)
        self.change(slots=len(places))

    def engine(self, name: str | None) -> None:
        """The file of the approximate index, written already; or none."""
        if self.facts.engine is not None:
            self._drop(self.facts.engine)
        self.change(engine=name)

    def commit(self, *, go_on: bool = False) -> None:
        """Makes the change true; with ``go_on`` another begins."""
        if self._vectors is not None:
            self._vectors.flush()
            os.fsync(self._vectors.fileno())
        sync(self.folder)
        self.change(version=self.facts.version + 1)
        write_facts(self._db, self.facts)
        self._db.execute("COMMIT")
        for name in self._stale:
            (self.folder / name).unlink(missing_ok=True)
        self._stale.clear()
        if go_on:
            self._db.execute("BEGIN IMMEDIATE")

    def _add_columns(self, rows: Sequence[tuple[Row, int]]) -> None:
        kinds = dict(self.facts.columns)
        for row, _ in rows:
            for name, value in row.metadata.items():
                if name not in kinds:
                    self._db.execute(f"ALTER TABLE rows ADD COLUMN c{len(kinds)}")
                    kinds[name] = ""
                if value is not None:
                    kind = "text" if isinstance(value, str) else "number"
                    kinds[name] = kind if kinds[name] in ("", kind) else "mixed"
        if kinds != self.facts.columns:
            self.change(columns=kinds)

    def _write(self, vectors: NDArray[np.float32]) -> None:
        if self._vectors is not None and Path(self._vectors.name).name != self.facts.vectors:
            self._vectors.close()
            self._vectors = None
        if self._vectors is None:
            path = self.folder / self.facts.vectors
            stream = path.open("r+b" if path.exists() else "x+b")
            stream.truncate(4 * self.facts.slots * self.facts.dimension)
            stream.seek(0, os.SEEK_END)
            self._vectors = stream
        self._vectors.write(np.ascontiguousarray(vectors, dtype="<f4").tobytes())

    def _drop(self, name: str) -> None:
        self._stale.add(name)


def create(folder: Path, facts: Facts) -> str:
    """A new, empty database beside whatever is in ``folder``; its name."""
    name = new_name("rows-", ".sqlite")
    db = sqlite3.connect(folder / name, isolation_level=None)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("BEGIN IMMEDIATE")
        db.execute("CREATE TABLE facts (facts TEXT NOT NULL)")
        db.execute("INSERT INTO facts VALUES (?)", [facts.model_dump_json()])
        _make_table(db, "rows", facts.columns)
        _make_key(db)
        db.execute("COMMIT")
    finally:
        db.close()
    (folder / facts.vectors).touch()
    return name


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


@contextmanager
def refused(folder: Path) -> Iterator[None]:
    """Tells in one line of a folder that cannot be written."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({reason(error)})") from None
    except sqlite3.OperationalError as error:
        raise UserError(f"{folder}: cannot be written ({reason(error)})") from None


@contextmanager
def damaged(folder: Path) -> Iterator[None]:
    """Tells in one line of a database that cannot be read."""
    try:
        yield
    except (sqlite3.DatabaseError, ValidationError) as error:
        raise UserError(
            f"{folder}: damaged ({reason(error)}); copy the whole folder again, or build the index again"
        ) from None


def connect(path: Path, *, write: bool) -> sqlite3.Connection:
    """The database at ``path``; in a folder that cannot be written it is read as it is."""
    how = "mode=rw" if write or os.access(path.parent, os.W_OK) else "mode=ro&immutable=1"
    with damaged(path.parent):
        db = sqlite3.connect(
            f"{path.absolute().as_uri()}?{how}", uri=True, timeout=_WAIT, isolation_level=None, check_same_thread=False
        )
        if write:
            db.execute("PRAGMA synchronous = FULL")
        return db


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
        raise UserError(
            f"{folder}: damaged ({path.name} has {size:,} bytes, {4 * facts.slots * facts.dimension:,} are needed); "
            "copy the whole folder again, or build the index again"
        )
    return np.memmap(path, dtype="<f4", mode="r", shape=(facts.slots, facts.dimension))


def sql_columns(columns: Iterable[str]) -> dict[str, str]:
    """The SQL name of each column of metadata."""
    return {name: f"c{number}" for number, name in enumerate(columns)}


def new_name(before: str, after: str) -> str:
    """A file name that no other file has."""
    return f"{before}{uuid.uuid4().hex[:12]}{after}"


def _make_table(db: sqlite3.Connection, name: str, columns: Iterable[str]) -> None:
    more = "".join(f", {column}" for column in sql_columns(columns).values())
    db.execute(f"CREATE TABLE {name} (place INTEGER PRIMARY KEY, id TEXT, part INTEGER, text TEXT{more})")


def _make_key(db: sqlite3.Connection) -> None:
    with contextlib.suppress(sqlite3.OperationalError):
        db.execute("DROP INDEX row_id")
    db.execute("CREATE UNIQUE INDEX row_id ON rows (id, part)")
