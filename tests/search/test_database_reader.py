"""The reader of an index's database: a block sees one moment, whatever another connection writes meanwhile."""

from __future__ import annotations

from opencse.search.database_reader import DatabaseReader
from opencse.search.folder import current_database
from opencse.search.index import Index


def test_a_transaction_sees_one_moment(index: Index) -> None:
    rows = len(index)
    reader = DatabaseReader(index.folder, current_database(index.folder))
    with reader.transaction() as before:
        index.add(["A dog barks."])
        with reader.reading() as db:
            counted = int(db.execute("SELECT count(*) FROM rows").fetchone()[0])
    assert (before.rows, counted) == (rows, rows)
    with reader.transaction() as after:
        assert after.rows == rows + 1
    reader.close()
