"""Writes a change of an index in one transaction: appended rows, deleted rows, compacted vectors.

The manifest in the database says how many rows of which vector file are in use. Vectors are appended and synced first;
then one SQLite transaction (write-ahead log, full sync) makes them part of the index. A process killed at any moment
therefore leaves the old or the new index. What a killed writer appended beyond it is overwritten by the next one.
"""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError
from opencse.files import sync
from opencse.search.database import (
    HAS_ID,
    Manifest,
    connect,
    map_vectors,
    read_errors,
    read_manifest,
    sql_columns,
    unique_name,
    write_manifest,
)
from opencse.search.rows import IndexRow, Value
from opencse.text.documents import id_after

_CHUNK = 8_192


class Writer:
    """Changes an index in one transaction; nothing is visible to readers before `commit`.

    Args:
        folder: the folder of the index, locked by this process.
        database: file name of its database.
    """

    def __init__(self, folder: Path, database: str) -> None:
        self.folder = folder
        self._db = connect(folder / database, write=True)
        try:
            with read_errors(folder):
                self.manifest = read_manifest(self._db)
        except BaseException:
            self._db.close()
            raise
        self._before = self.manifest
        self._vectors: BinaryIO | None = None
        self._obsolete: set[str] = set()

    def __enter__(self) -> Writer:
        # At once, so that another writer shows here and not in the middle of a change.
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
        """Whether the vector file has been replaced."""
        return self.manifest.vectors != self._before.vectors

    def flush(self) -> None:
        """Writes buffered vectors to the file, so that they can be read."""
        if self._vectors is not None:
            self._vectors.flush()

    def change(self, **fields: Any) -> None:  # noqa: ANN401 - the fields of Manifest
        """Changes fields of the manifest, from the next `commit` on."""
        self.manifest = Manifest.model_validate({**self.manifest.model_dump(), **fields})

    def append(self, rows: Sequence[tuple[IndexRow, int]], vectors: NDArray[np.float32]) -> None:
        """Appends rows.

        Args:
            rows: each with the number of its passage in the document.
            vectors: (n, d) prepared for the index's similarity.

        Raises:
            UserError: for an id and passage that exist already.
        """
        manifest = self.manifest
        self._add_columns(rows)
        names = list(self.manifest.columns)
        columns = ["place", "id", "part", "text", *sql_columns(names).values()]
        insert = f"INSERT INTO rows ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
        next_id = manifest.next_id
        position = manifest.slots
        for row, part in rows:
            assert row.id is not None
            values = [row.metadata.get(name) for name in names]
            try:
                self._db.execute(insert, [position, row.id, part, row.text, *values])
            except sqlite3.IntegrityError:
                raise UserError(
                    f"{self.folder}: the id {row.id[:80]!r} exists already (or twice in the added rows); give each row "
                    "its own id, or replace existing rows with --replace"
                ) from None
            position += 1
            next_id = max(next_id, id_after(row.id))
        self._write(vectors)
        self.change(
            slots=position,
            rows=manifest.rows + len(rows),
            next_id=next_id,
            passages=manifest.passages or any(part for _, part in rows),
        )

    def remove(self, condition: str, values: Sequence[Value]) -> int:
        """Deletes the rows for which an SQL condition holds, and returns their number."""
        count = self._db.execute(f"DELETE FROM rows WHERE {condition}", values).rowcount
        self.change(rows=self.manifest.rows - count)
        return count

    def remove_ids(self, ids: Iterable[str]) -> int:
        """Deletes the rows with certain ids, and returns their number."""
        return self.remove(HAS_ID, [json.dumps(list(ids))])

    def existing_ids(self, ids: Iterable[str]) -> set[str]:
        """The ids among ``ids`` that the index holds."""
        query = f"SELECT DISTINCT id FROM rows WHERE {HAS_ID}"
        return {name for (name,) in self._db.execute(query, [json.dumps(list(ids))])}

    def sample_texts(self, most: int) -> list[str]:
        """At most ``most`` texts, evenly spread over the rows."""
        positions = range(0, self.manifest.slots, max(1, -(-self.manifest.slots // most)))
        rows = self._db.execute(
            "SELECT text FROM rows WHERE place IN (SELECT value FROM json_each(?)) ORDER BY place",
            [json.dumps(list(positions))],
        )
        return [text for (text,) in rows]

    def compact(self) -> None:
        """Writes the vector file again without the vectors of deleted rows."""
        rows = self._db.execute("SELECT place FROM rows ORDER BY place")
        positions = np.fromiter((position for (position,) in rows), dtype=np.int64)
        self.flush()
        old = map_vectors(self.folder, self.manifest)
        self._obsolete.add(self.manifest.vectors)
        self.change(vectors=unique_name("vectors-", ".f32"), vectors_sum=0, slots=0)
        for start in range(0, len(positions), _CHUNK):
            self._write(old[positions[start : start + _CHUNK]])
        # In two steps, by way of negative places: a place may still be another row's.
        self._db.execute(
            "UPDATE rows SET place = -moved.number FROM (SELECT place, row_number() OVER (ORDER BY place) AS number "
            "FROM rows) AS moved WHERE rows.place = moved.place"
        )
        self._db.execute("UPDATE rows SET place = -place - 1")
        self.change(slots=len(positions))

    def set_approximate(self, name: str | None) -> None:
        """Sets the file of the approximate index, which is written already; None: there is none."""
        if self.manifest.engine is not None:
            self._obsolete.add(self.manifest.engine)
        self.change(engine=name)

    def commit(self, *, begin_next: bool = False) -> None:
        """Makes the change visible; with ``begin_next`` also begins another transaction."""
        if self._vectors is not None:
            self._vectors.flush()
            os.fsync(self._vectors.fileno())
        sync(self.folder)  # the vectors are on the disk before the database names them
        self.change(version=self.manifest.version + 1)
        write_manifest(self._db, self.manifest)
        self._db.execute("COMMIT")
        for name in self._obsolete:  # not earlier: until the commit these files are the index
            (self.folder / name).unlink(missing_ok=True)
        self._obsolete.clear()
        if begin_next:
            self._db.execute("BEGIN IMMEDIATE")

    def _add_columns(self, rows: Sequence[tuple[IndexRow, int]]) -> None:
        """Adds columns for new metadata, and widens the type of those with other values."""
        types = dict(self.manifest.columns)
        for row, _ in rows:
            for name, value in row.metadata.items():
                if name not in types:
                    self._db.execute(f"ALTER TABLE rows ADD COLUMN c{len(types)}")
                    types[name] = ""
                if value is not None:
                    kind = "text" if isinstance(value, str) else "number"
                    types[name] = kind if types[name] in ("", kind) else "mixed"
        if types != self.manifest.columns:
            self.change(columns=types)

    def _write(self, vectors: NDArray[np.float32]) -> None:
        """Appends vectors to the current vector file."""
        if self._vectors is not None and Path(self._vectors.name).name != self.manifest.vectors:
            self._vectors.close()
            self._vectors = None
        if self._vectors is None:
            path = self.folder / self.manifest.vectors
            stream = path.open("r+b" if path.exists() else "x+b")
            # What an interrupted change has appended belongs to no version.
            stream.truncate(4 * self.manifest.slots * self.manifest.dimension)
            stream.seek(0, os.SEEK_END)
            self._vectors = stream
        content = np.ascontiguousarray(vectors, dtype="<f4").tobytes()
        self._vectors.write(content)
        if self.manifest.vectors_sum is not None:
            self.change(vectors_sum=zlib.crc32(content, self.manifest.vectors_sum))
