"""Checksums of what an index holds, written with it, so that damage is noticed and not searched.

Vectors are summed up in pages of 1,024 rows, the file of an approximate index as a whole (CRC-32, in the table ``sums``
of the database), and each row of the database by itself. An index that was written before there were sums is taken as
it is; the next change sums it up.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from opencse.errors import OutdatedError

PAGE = 1_024
"""Rows of vectors that are summed up together."""
_BLOCK = 1 << 22
Sums = dict[int, int]
"""Page -> its sum."""


def make_sums(db: sqlite3.Connection) -> None:
    """The table of sums, where it is not there."""
    db.execute("CREATE TABLE IF NOT EXISTS sums (file TEXT, page INTEGER, crc INTEGER, PRIMARY KEY (file, page))")


def read_sums(db: sqlite3.Connection, file: str) -> Sums:
    """The sums of a file by page; none of an index that was written before there were any."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'sums'").fetchone():
        return {}
    return dict(db.execute("SELECT page, crc FROM sums WHERE file = ?", [file]))


def write_sums(db: sqlite3.Connection, folder: Path, vectors: str, row: int, slots: int, first: int) -> None:
    """Sums up the pages of a vector file from place ``first`` on, and those that have no sum yet.

    Args:
        db: within a transaction.
        folder: of the index.
        vectors: name of the file; what was appended must be in it.
        row: bytes of a row.
        slots: rows that count.
        first: the first place that is new.
    """
    make_sums(db)
    db.execute("DELETE FROM sums WHERE file LIKE 'vectors-%' AND file != ?", [vectors])
    known = read_sums(db, vectors)
    count = -(-slots // PAGE)
    db.execute("DELETE FROM sums WHERE file = ? AND page >= ?", [vectors, count])
    pages = [page for page in range(count) if page not in known or (page + 1) * PAGE > first]
    found = page_sums(folder / vectors, row, slots, pages)
    db.executemany("INSERT OR REPLACE INTO sums VALUES (?, ?, ?)", [(vectors, *one) for one in found.items()])


def page_sums(path: Path, row: int, slots: int, pages: Iterable[int]) -> Sums:
    """The sums of some pages of a vector file as it is now; see `write_sums`."""
    found: Sums = {}
    wanted = list(pages)
    if not wanted:  # of an empty index there is no file
        return found
    with path.open("rb") as stream:
        for page in wanted:
            stream.seek(page * PAGE * row)
            found[page] = zlib.crc32(stream.read((min(slots, (page + 1) * PAGE) - page * PAGE) * row))
    return found


def file_sum(path: Path) -> int:
    """The sum of a whole file."""
    total = 0
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            total = zlib.crc32(block, total)
    return total


def wrong_pages(path: Path, row: int, slots: int, sums: Mapping[int, int]) -> list[int]:
    """The pages of a vector file that are not as they were written."""
    now = page_sums(path, row, slots, sorted(sums))
    return [page for page, value in now.items() if value != sums[page]]


def require_pages(path: Path, row: int, slots: int, sums: Mapping[int, int]) -> None:
    """Refuses a vector file with pages that are not as they were written.

    Raises:
        OutdatedError: naming the first.
    """
    wrong = wrong_pages(path, row, slots, sums)
    if wrong:
        raise OutdatedError(
            f"{path.parent}: damaged ({page_fault(path.name, wrong, slots)}); copy the whole folder again, or build "
            "the index again"
        )


def page_fault(name: str, wrong: list[int], slots: int) -> str:
    """A clause that says which rows are wrong."""
    first, last = wrong[0] * PAGE, min(slots, (wrong[0] + 1) * PAGE) - 1
    more = f" and {len(wrong) - 1:,} more pages" if len(wrong) > 1 else ""
    return f"{name}: rows {first:,} to {last:,}{more} are not as they were written"


def row_sum(name: str, part: int, text: str, values: Mapping[str, object]) -> int:
    """The sum of a row of the database; values that are empty do not count, for columns may be added later."""
    kept = sorted((key, value + 0.0 if isinstance(value, float) else value)
                  for key, value in values.items() if value is not None)  # fmt: skip
    return zlib.crc32(repr((name, part, text, kept)).encode())
