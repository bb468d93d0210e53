"""A change of an index, and the one place where it becomes true.

The database says how much of which vector file counts. Vectors are appended and synced first, then one SQLite
transaction (write-ahead log, full sync) makes them part of the index, so that a kill at any moment leaves the old or
the new index. What a killed writer left beyond that is cut off by the next one.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError
from opencse.io import sync
from opencse.search.checksums import file_sum, row_sum, write_sums
from opencse.search.database import (
    HAS_ID,
    Facts,
    connect,
    damaged,
    has_sums,
    make_key,
    make_table,
    mapped,
    new_name,
    read_facts,
    sql_columns,
    write_facts,
)
from opencse.search.folder import note
from opencse.search.rows import Row, Value

_CHUNK = 8_192


class Writer:
    """A change of an index in the making; nothing of it counts before `commit`."""

    def __init__(self, folder: Path, rows: str) -> None:
        self.folder = folder
        self._db = connect(folder / rows, write=True)
        try:
            with damaged(folder):
                self.facts = read_facts(self._db)
                self._summed = has_sums(self._db)
        except BaseException:
            self._db.close()
            raise
        self._before = self.facts
        self._vectors: Any = None
        self._stale: set[str] = set()
        self._first_new: int | None = None

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
        columns = ["place", "id", "part", "text", *sql_columns(names).values(), *(["crc"] if self._summed else [])]
        insert = f"INSERT INTO rows ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
        next_id = facts.next_id
        place = facts.slots
        for row, part in rows:
            if row.id is None:
                raise RuntimeError("a row without an id reached the store")
            values = [row.metadata.get(name) for name in names]
            sums = [row_sum(row.id, part, row.text, row.metadata)] if self._summed else []
            try:
                self._db.execute(insert, [place, row.id, part, row.text, *values, *sums])
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

    def remove_ids(self, ids: Iterable[str]) -> int:
        """Deletes the rows with some ids; how many."""
        return self.remove(HAS_ID, [json.dumps(list(ids))])

    def known(self, ids: Iterable[str]) -> set[str]:
        """Those of the ids that are there."""
        return {
            name
            for (name,) in self._db.execute(f"SELECT DISTINCT id FROM rows WHERE {HAS_ID}", [json.dumps(list(ids))])
        }

    def sample(self, most: int) -> list[str]:
        """At most so many texts, evenly spread over the rows."""
        places = range(0, self.facts.slots, max(1, -(-self.facts.slots // most)))
        found = self._db.execute(
            "SELECT text FROM rows WHERE place IN (SELECT value FROM json_each(?)) ORDER BY place",
            [json.dumps(list(places))],
        )
        return [text for (text,) in found]

    def compact(self) -> None:
        """Writes the vector file without its dead places."""
        found = self._db.execute("SELECT place FROM rows ORDER BY place")
        places = np.fromiter((place for (place,) in found), dtype=np.int64)
        self.flush()
        old = mapped(self.folder, self.facts)
        self._drop(self.facts.vectors)
        self.change(vectors=new_name("vectors-", ".f32"), slots=0)
        self._first_new = 0
        note(self.folder, self.facts.vectors)
        for start in range(0, len(places), _CHUNK):
            self._write(old[places[start : start + _CHUNK]])
        columns = "".join(f", {name}" for name in sql_columns(self.facts.columns).values())
        crc = "crc" if self._summed else "NULL"
        make_table(self._db, "compacted", self.facts.columns)
        self._db.execute(
            f"INSERT INTO compacted (place, id, part, text, crc{columns}) "
            f"SELECT row_number() OVER (ORDER BY place) - 1, id, part, text, {crc}{columns} FROM rows"
        )
        self._summed = True
        self._db.execute("DROP TABLE rows")
        self._db.execute("ALTER TABLE compacted RENAME TO rows")
        make_key(self._db)
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
        self._sum_up()
        self.change(version=self.facts.version + 1)
        write_facts(self._db, self.facts)
        self._db.execute("COMMIT")
        for name in self._stale:
            (self.folder / name).unlink(missing_ok=True)
        self._stale.clear()
        if go_on:
            self._db.execute("BEGIN IMMEDIATE")

    def _sum_up(self) -> None:
        """Writes the checksums of what is new."""
        facts = self.facts
        first = facts.slots if self._first_new is None else self._first_new
        write_sums(self._db, self.folder, facts.vectors, 4 * facts.dimension, facts.slots, first)
        self._first_new = None
        if facts.engine != self._before.engine and facts.engine is not None:
            self._db.execute("DELETE FROM sums WHERE file LIKE 'engine-%'")
            value = file_sum(self.folder / facts.engine)
            self._db.execute("INSERT OR REPLACE INTO sums VALUES (?, 0, ?)", [facts.engine, value])

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
        self._first_new = min(self.facts.slots, self.facts.slots if self._first_new is None else self._first_new)
        self._vectors.write(np.ascontiguousarray(vectors, dtype="<f4").tobytes())

    def _drop(self, name: str) -> None:
        self._stale.add(name)
