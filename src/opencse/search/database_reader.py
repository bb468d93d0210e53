"""Reads the database of an index: one connection, shared by threads, whose reads within a block see one moment."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from opencse.search.checksums import PageSums
from opencse.search.row_database import Manifest, connect, has_checksums, read_errors, read_manifest


class DatabaseReader:
    """An open database of an index, shared by the snapshots of several threads.

    Attributes:
        folder: of the index.
        name: file name of the database.
        has_checksums: whether its rows have checksums.
        verified: by vector file, the checksums of the pages that were verified.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.verified: dict[str, PageSums] = {}
        self._lock = threading.RLock()
        self._db = connect(folder / name, write=False)
        try:
            with read_errors(folder):
                self.has_checksums = has_checksums(self._db)
        except BaseException:
            self._db.close()
            raise

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
