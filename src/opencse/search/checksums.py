"""Checksums of the files and rows of an index, written with it, so that damage is detected before it is searched.

The vector file is summed in pages of 1,024 rows and the file of an approximate index as a whole (CRC-32, in the table
``sums`` of the database); each row of the database has its own sum. An index of an older version without checksums is
read as it is; the next change adds them.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from opencse.errors import OutdatedError
from opencse.numerals import number_of

PAGE = 1_024
"""Rows of vectors that share a checksum."""
_BLOCK = 1 << 22
"""Bytes that are read at a time."""
PageSums = dict[int, int]
"""Page number -> CRC-32 of the page."""


def read_sums(db: sqlite3.Connection, file: str) -> PageSums:
    """Reads the stored checksums of a file; empty for an index of an older version without them."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'sums'").fetchone():
        return {}
    return dict(db.execute("SELECT page, crc FROM sums WHERE file = ?", [file]))


def write_sums(db: sqlite3.Connection, folder: Path, vectors: str, row_bytes: int, slots: int, first: int) -> None:
    """Stores the checksums of all pages of a vector file that are new, changed, or have no checksum yet.

    Args:
        db: within a transaction.
        folder: of the index.
        vectors: name of the file, with the appended rows already written.
        row_bytes: size of a row.
        slots: rows in use.
        first: position of the first new row.
    """
    db.execute("CREATE TABLE IF NOT EXISTS sums (file TEXT, page INTEGER, crc INTEGER, PRIMARY KEY (file, page))")
    db.execute("DELETE FROM sums WHERE file LIKE 'vectors-%' AND file != ?", [vectors])
    known = read_sums(db, vectors)
    count = -(-slots // PAGE)
    db.execute("DELETE FROM sums WHERE file = ? AND page >= ?", [vectors, count])
    pages = [page for page in range(count) if page not in known or (page + 1) * PAGE > first]
    sums = page_sums(folder / vectors, row_bytes, slots, pages)
    db.executemany("INSERT OR REPLACE INTO sums VALUES (?, ?, ?)", [(vectors, *item) for item in sums.items()])


def page_sums(path: Path, row_bytes: int, slots: int, pages: Iterable[int]) -> PageSums:
    """Computes the checksums of some pages of a vector file from its content; see `write_sums`."""
    sums: PageSums = {}
    numbers = list(pages)
    if not numbers:  # an empty index has no vector file
        return sums
    with path.open("rb") as stream:
        for page in numbers:
            stream.seek(page * PAGE * row_bytes)
            sums[page] = zlib.crc32(stream.read((min(slots, (page + 1) * PAGE) - page * PAGE) * row_bytes))
    return sums


def file_sum(path: Path) -> int:
    """Computes the checksum of a file."""
    total = 0
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            total = zlib.crc32(block, total)
    return total


def damaged_pages(path: Path, row_bytes: int, slots: int, sums: Mapping[int, int]) -> list[int]:
    """Numbers of the pages of a vector file whose content differs from the stored checksum."""
    now = page_sums(path, row_bytes, slots, sorted(sums))
    return [page for page, value in now.items() if value != sums[page]]


def require_pages(path: Path, row_bytes: int, slots: int, sums: Mapping[int, int]) -> None:
    """Refuses a vector file with damaged pages.

    Raises:
        OutdatedError: naming the first page.
    """
    pages = damaged_pages(path, row_bytes, slots, sums)
    if pages:
        raise OutdatedError(
            f"{path.parent}: damaged ({page_fault(path.name, pages, slots)}); copy the whole folder again, or build "
            "the index again"
        )


def page_fault(name: str, pages: list[int], slots: int) -> str:
    """A clause that names the damaged rows."""
    first, last = pages[0] * PAGE, min(slots, (pages[0] + 1) * PAGE) - 1
    more = f" and {number_of(len(pages) - 1, 'more page')}" if len(pages) > 1 else ""
    return f"{name}: rows {first:,} to {last:,}{more} are not as they were written"


def row_sum(name: str, part: int, text: str, values: Mapping[str, object]) -> int:
    """Computes the checksum of a row of the database.

    Empty values are left out, because columns may be added later.
    """
    items = sorted((key, value + 0.0 if isinstance(value, float) else value)
                   for key, value in values.items() if value is not None)  # fmt: skip
    return zlib.crc32(repr((name, part, text, items)).encode())
