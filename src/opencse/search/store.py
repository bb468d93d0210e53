"""An index as its readers see it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from opencse.search.checksums import PAGE, Sums, read_sums, require_pages, row_sum
from opencse.search.database import Facts, Stored, connect, damage, damaged, has_sums, mapped, read_facts, sql_columns
from opencse.search.folder import current
from opencse.search.rows import Value

WHOLE = 1 << 28
"""Bytes of vectors up to which all are looked at before the first search; of more only the pages of what is found."""


class Store:
    """A reader's view of an index; safe to use from several threads."""

    def __init__(self, folder: Path, rows: str) -> None:
        self.folder, self.name = folder, rows
        self._guard = threading.RLock()
        self._db = connect(folder / rows, write=False)
        with damaged(folder):
            self._summed = has_sums(self._db)
        self._sound: dict[str, Sums] = {}

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
        vectors = mapped(self.folder, facts)
        if vectors.nbytes <= WHOLE:
            self.require_sound(facts)
        return vectors

    def require_sound(self, facts: Facts, places: Iterable[int] | None = None) -> None:
        """Refuses vectors that are not as they were written; a page is looked at once for each time it was written.

        Args:
            facts: of the same moment.
            places: rows of whose pages alone this is asked; None: all.

        Raises:
            OutdatedError: naming rows that are damaged.
        """
        with self._guard, damaged(self.folder):
            sums = read_sums(self._db, facts.vectors)
        sound = self._sound.get(facts.vectors, {})
        wanted = sums if places is None else {place // PAGE for place in places} & sums.keys()
        new = {page: sums[page] for page in wanted if sound.get(page) != sums[page]}
        if new:
            require_pages(self.folder / facts.vectors, 4 * facts.dimension, facts.slots, new)
            self._sound = {facts.vectors: {**sound, **new}}

    def alive(self, facts: Facts) -> NDArray[np.int64] | None:
        """The living places, ascending; None where all are."""
        if facts.rows == facts.slots:
            return None
        return self.places("1", [], facts)

    def places(self, condition: str, values: Sequence[Value], facts: Facts) -> NDArray[np.int64]:
        """The living places for which an SQL condition holds, ascending.

        Raises:
            OutdatedError: if the database is damaged, so that one of them has no vector.
        """
        with self._guard, damaged(self.folder):
            found = self._db.execute(f"SELECT place FROM rows WHERE {condition} ORDER BY place", values)
            places = np.fromiter((place for (place,) in found), dtype=np.int64)
        if len(places) and (places.min() < 0 or places.max() >= facts.slots):
            raise damage(self.folder, "a row has no vector")
        return places

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
        wanted = [int(place) for place in places]
        self.require_sound(facts, wanted)
        rows = self.select("place IN (SELECT value FROM json_each(?))", [json.dumps(wanted)], facts)
        by_place = {row[0]: row for row in rows}
        wrong = [*self.wrong_rows(rows, facts), *(place for place in wanted if place not in by_place)]
        if wrong:
            raise damage(self.folder, f"row {wrong[0]:,} of {self.name} is not as it was written")
        return by_place

    def wrong_rows(self, rows: Sequence[Stored], facts: Facts) -> list[int]:
        """The places of those rows that are not as they were written."""
        if not self._summed or not rows:
            return []
        places = json.dumps([row[0] for row in rows])
        with self._guard, damaged(self.folder):
            found = self._db.execute(
                "SELECT place, crc FROM rows WHERE place IN (SELECT value FROM json_each(?))", [places]
            )
            sums = dict(found.fetchall())
        wrong = []
        for place, name, part, text, values in rows:
            now = row_sum(name, part, text, dict(zip(facts.columns, values, strict=True)))
            if place not in sums or sums[place] not in (None, now):
                wrong.append(place)
        return wrong

    def faults(self) -> list[str]:
        """What SQLite itself finds wrong with the database."""
        with self._guard, damaged(self.folder):
            told = [str(line) for (line,) in self._db.execute("PRAGMA integrity_check(5)")]
        return [] if told == ["ok"] else told

    def sum_of(self, file: str) -> Sums:
        """The checksums of a file by page."""
        with self._guard, damaged(self.folder):
            return read_sums(self._db, file)
