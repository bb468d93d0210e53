"""An index as its readers see it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from opencse.search.database import Facts, Stored, connect, damaged, mapped, read_facts, sql_columns
from opencse.search.folder import current
from opencse.search.rows import Value


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
