"""Takes snapshots of an index: views of one moment, consistent while other processes change or replace the index.

A query reads everything it needs (manifest, rows, vectors, keyword index, checksums) from one `Snapshot`.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import numpy as np

from opencse.arrays import Integers
from opencse.errors import OutdatedError, UserError
from opencse.modules.similarity import Similarity
from opencse.ranking import PreparedVectors
from opencse.search.approximate import ApproximateIndex
from opencse.search.database import (
    HAS_ID,
    Manifest,
    StoredRow,
    connect,
    current_database,
    damage_error,
    file_sum,
    map_vectors,
    read_errors,
    read_manifest,
    sql_columns,
)
from opencse.search.filters import Where, sql_of
from opencse.search.hybrid import evenly_spread
from opencse.search.keyword_index import KeywordIndex, cache_name, cached_keyword_index
from opencse.search.rows import Value

WHOLE = 1 << 28
"""Bytes of vectors up to which they are verified before the first search; more are not verified."""
_TRIES = 5
_ROWS = 10_000
"""Rows that are read at a time."""


class DatabaseReader:
    """An open database of an index, shared by the snapshots of several threads.

    Attributes:
        folder: the folder of the index.
        name: file name of the database.
        verified: the vector file that was verified, how many of its bytes, and their checksum.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.verified = ("", 0, 0)
        # Reentrant: within a transaction the same thread calls `reading` again.
        self._lock = threading.RLock()
        self._db = connect(folder / name, write=False)

    def close(self) -> None:
        """Closes the database."""
        self._db.close()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Gives this thread the database, and reports damage as a `UserError`."""
        with self._lock, read_errors(self.folder):
            yield self._db

    @contextmanager
    def transaction(self) -> Iterator[Manifest]:
        """Makes all reads within the block see one moment, whatever another process writes meanwhile."""
        with self.reading() as db:
            db.execute("BEGIN")
            try:
                yield read_manifest(db)
            finally:
                db.execute("COMMIT")


class Snapshot:
    """The index at one moment. Use it within the block of `Snapshots.take`.

    Vectors and keyword index are loaded once per version of the index; later snapshots of that version share them.

    Attributes:
        folder: the folder of the index.
        database: file name of its database.
        manifest: what the index consists of at this moment.
    """

    def __init__(self, reader: DatabaseReader, manifest: Manifest) -> None:
        self.folder, self.database = reader.folder, reader.name
        self.manifest = manifest
        self._reader = reader

    def load(self) -> Snapshot:
        """Opens the vectors and the approximate index, so that the block can use them whatever happens to the files.

        Raises:
            FileNotFoundError: if another process has replaced a file since.
            UserError: if a file is damaged.
        """
        _ = self.approximate, self.vectors, self.living
        return self

    @property
    def similarity(self) -> Similarity:
        """How vectors are compared."""
        return self.manifest.similarity

    @cached_property
    def vectors(self) -> PreparedVectors:
        """(slots, d) vectors prepared for the index's similarity (L2-normalised for the cosine), memory-mapped."""
        vectors = map_vectors(self.folder, self.manifest)
        if 0 < vectors.nbytes <= WHOLE and not self.has_sound_vectors():
            raise damage_error(self.folder, f"{self.manifest.vectors} is not as it was written")
        return vectors

    @cached_property
    def approximate(self) -> ApproximateIndex | None:
        """The approximate index; None: the search is exact."""
        name = self.manifest.engine
        if name is None:
            return None
        return ApproximateIndex.read(self.folder / name, self.manifest.slots, self.similarity)

    @cached_property
    def living(self) -> Integers | None:
        """Positions of the rows that are not deleted, ascending; None: no row is deleted."""
        return None if self.manifest.rows == self.manifest.slots else self.positions_where("1", [])

    @property
    def positions(self) -> Integers:
        """Positions of the rows that are not deleted, ascending."""
        return np.arange(len(self.vectors)) if self.living is None else self.living

    @cached_property
    def firsts(self) -> Integers:
        """See `opencse.search.hybrid.SearchedRows`."""
        if not self.manifest.passages:
            return np.arange(self.manifest.rows)
        return np.searchsorted(self.positions, self.positions_where("1 GROUP BY id", [], "min(place)"))

    @property
    def living_vectors(self) -> PreparedVectors:
        """(rows, d) vectors of the rows that are not deleted, in their order."""
        return self.vectors if self.living is None else np.asarray(self.vectors[self.living])

    @property
    def words_folder(self) -> Path:
        """The folder in which the counted words of all rows are kept; it may not exist yet."""
        return self.folder / cache_name(self.database, self.manifest.version, self.manifest.language)

    @cached_property
    def keywords(self) -> KeywordIndex:
        """The keyword index of whole documents; opened, or counted, at the first hybrid search."""
        manifest = self.manifest

        def texts() -> list[str]:
            rows = groupby(self.select("1", []), key=attrgetter("id"))
            return [" ".join(row.text for row in passages) for _, passages in rows]

        return cached_keyword_index(
            self.folder,
            self.words_folder.name,
            len(self.firsts),
            texts,
            manifest.language,
        )

    @cached_property
    def sample(self) -> PreparedVectors:
        """(at most 4096, d) vectors of rows evenly spread over the index."""
        return np.asarray(self.vectors[evenly_spread(self.positions)])

    def select(self, condition: str, values: Sequence[Value], rest: str = "") -> list[StoredRow]:
        """Reads the rows for which an SQL condition holds, by position."""
        columns = "".join(f", {name}" for name in sql_columns(self.manifest.columns).values())
        query = f"SELECT place, id, part, text{columns} FROM rows WHERE {condition} ORDER BY place {rest}"
        with self._reader.reading() as db:
            return [StoredRow(position, name, part, text, tuple(more))
                    for position, name, part, text, *more in db.execute(query, values)]  # fmt: skip

    def matching(self, where: Where | None) -> Integers | None:
        """Positions of the rows that meet conditions; None: all rows, none of which is deleted."""
        if where is None:
            return self.living
        return self.positions_where(*sql_of(where, sql_names(self.manifest), self.manifest.columns))

    def positions_where(self, condition: str, values: Sequence[Value], place: str = "place") -> Integers:
        """Positions of the rows for which an SQL condition holds, ascending.

        Raises:
            OutdatedError: if the database is damaged, so that a row has no vector.
        """
        with self._reader.reading() as db:
            rows = db.execute(f"SELECT {place} FROM rows WHERE {condition} ORDER BY {place}", values)
            positions = np.fromiter((position for (position,) in rows), dtype=np.int64)
        if len(positions) and (positions.min() < 0 or positions.max() >= self.manifest.slots):
            raise damage_error(self.folder, "a row has no vector")
        return positions

    def rows_by_id(self, ids: Sequence[str]) -> dict[str, list[StoredRow]]:
        """Reads the rows with certain ids; ids that do not exist are left out."""
        by_id: dict[str, list[StoredRow]] = {}
        for row in self.select(HAS_ID, [json.dumps(list(ids))]):
            by_id.setdefault(row.id, []).append(row)
        return by_id

    def rows_with_ids(self, ids: Sequence[str]) -> list[StoredRow]:
        """Reads the rows with certain ids, in the order of ``ids``.

        Raises:
            UserError: for an id that does not exist.
        """
        by_id = self.rows_by_id(ids)
        for name in ids:
            if name not in by_id:
                raise UserError(f"{self.folder}: no row has the id {name[:80]!r}")
        return [row for name in ids for row in by_id[name]]

    def rows_at(self, positions: Iterable[int]) -> dict[int, StoredRow]:
        """Reads the rows at some positions.

        Raises:
            OutdatedError: naming one that is missing.
        """
        numbers = [int(position) for position in positions]
        rows = self.select("place IN (SELECT value FROM json_each(?))", [json.dumps(numbers)])
        by_position = {row.position: row for row in rows}
        for number in numbers:
            if number not in by_position:
                raise damage_error(self.folder, f"row {number:,} of {self.database} is missing")
        return by_position

    def has_sound_vectors(self) -> bool:
        """Whether the vector file has its checksum; what was verified before is not read again."""
        manifest, size = self.manifest, 4 * self.manifest.slots * self.manifest.dimension
        name, begin, value = self._reader.verified
        if name != manifest.vectors:
            begin = value = 0
        value = file_sum(self.folder / manifest.vectors, size, begin, value)
        if sound := manifest.vectors_sum in (None, value):
            self._reader.verified = (manifest.vectors, size, value)
        return sound

    def count_documents(self) -> int:
        """The number of different ids."""
        if not self.manifest.passages:
            return self.manifest.rows
        with self._reader.reading() as db:
            return int(db.execute("SELECT count(DISTINCT id) FROM rows").fetchone()[0])

    def document_ids(self) -> list[str]:
        """The different ids, in the order in which their first rows were added."""
        with self._reader.reading() as db:
            rows = db.execute("SELECT id FROM rows GROUP BY id ORDER BY min(place)")
            return [name for (name,) in rows]


class Snapshots:
    """Takes snapshots of the index in a folder, and follows it when another process replaces it; thread-safe.

    Attributes:
        folder: the folder of the index.
        fingerprint: the fingerprint of the index's encoder when it was opened; empty before the first snapshot.

    Raises:
        UserError: if the folder holds no index, or it is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fingerprint = ""
        self._latest: Snapshot | None = None
        self._block = threading.local()
        self._closed = False
        self._identity = ("", 0)
        self._connect()

    def close(self) -> None:
        """Closes the files; reading after it is refused."""
        self._closed = True
        self._reader.close()

    @contextmanager
    def take(self) -> Iterator[Snapshot]:
        """Gives the index as it is now; inside another block of the same thread, the snapshot of that block.

        Raises:
            OutdatedError: if the index is gone, damaged, or was built again with another model.
        """
        if self._closed:
            raise UserError(f"{self.folder}: this index has been closed; open it again with Index.open")
        outer: Snapshot | None = getattr(self._block, "snapshot", None)
        if outer is not None:
            yield outer
            return
        for _ in range(_TRIES):
            try:
                self._connect()
            except OutdatedError:
                raise
            except UserError as error:
                raise OutdatedError(str(error)) from None
            with self._reader.transaction() as manifest:
                self.require_same(manifest)
                try:
                    snapshot = self._load(manifest)
                except FileNotFoundError as error:  # replaced since the manifest was read, or missing
                    missing = error.filename
                    continue
                self._block.snapshot = snapshot
                try:
                    yield snapshot
                finally:
                    self._block.snapshot = None
                return
        raise damage_error(self.folder, f"{Path(missing).name} is missing")

    def require_same(self, manifest: Manifest) -> None:
        """Refuses an index whose vectors are of another encoder than when it was opened.

        Raises:
            OutdatedError: naming the fix.
        """
        self.fingerprint = self.fingerprint or manifest.fingerprint
        if manifest.fingerprint != self.fingerprint:
            raise OutdatedError(f"{self.folder}: was built again with another model since it was opened; open it again")

    def _load(self, manifest: Manifest) -> Snapshot:
        """The latest snapshot if nothing has changed since, otherwise a new one."""
        latest = self._latest
        if latest is None or latest.manifest != manifest:
            latest = Snapshot(self._reader, manifest).load()
            self._latest = latest
        return latest

    def _connect(self) -> None:
        """Opens the current database of the folder, unless it is open."""
        name = current_database(self.folder)
        with suppress(FileNotFoundError):  # another process has just replaced it: the vectors are not there either
            identity = name, (self.folder / name).stat().st_ino  # which changes with a copy of the folder
            if identity != self._identity:
                # Other threads may still use the old reader, which is closed when they release it.
                self._reader, self._latest = DatabaseReader(self.folder, name), None
                self._identity = identity


def sql_names(manifest: Manifest) -> dict[str, str]:
    """The SQL name of each column that conditions may use."""
    return {"id": "id", **sql_columns(manifest.columns)}
