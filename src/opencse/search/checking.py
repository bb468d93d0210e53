"""Checks an index: reads every file completely and compares it with the stored checksums."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opencse.errors import UserError
from opencse.numerals import number_of
from opencse.progress import Progress
from opencse.search.approximate import ApproximateIndex
from opencse.search.checksums import PAGE, damaged_pages, file_sum, page_fault
from opencse.search.database_reader import DatabaseReader
from opencse.search.folder import current_database
from opencse.search.keyword_index import cache_name, is_cache_intact
from opencse.search.snapshots import Snapshot

_ROWS = 10_000
"""Rows that are read at a time."""


@dataclass(frozen=True)
class IndexCheck:
    """The result of checking an index.

    Example:
        >>> IndexCheck("animals", 29, (), ()).faults
        ()

    Attributes:
        folder: of the index.
        rows: number of rows that were read.
        faults: what is damaged, one sentence each; empty for an intact index.
        notes: what could not be checked, for instance because the index is older than the checksums.
    """

    folder: str
    rows: int
    faults: tuple[str, ...]
    notes: tuple[str, ...]


def check(folder: Path, progress: Progress) -> IndexCheck:
    """Checks every file of the index in ``folder`` at one moment.

    Example:
        >>> from opencse.encoder.encoder import SentenceEncoder
        >>> from opencse.progress import Silent
        >>> from opencse.search.index import Index
        >>> Index.build("sound", ["A cat sleeps."], SentenceEncoder.load(device="cpu")).close()
        >>> check(Path("sound"), Silent()).rows
        1

    Raises:
        UserError: if there is no index.
    """
    reader = DatabaseReader(folder, current_database(folder))
    faults: list[str] = []
    notes: list[str] = []
    rows = 0
    try:
        with reader.transaction() as manifest:
            snapshot = Snapshot(reader, manifest)
            faults += [f"{snapshot.database}: {line}" for line in snapshot.integrity_errors()]
            rows = _check_rows(snapshot, faults, progress)
            _check_vectors(snapshot, faults, notes)
            _check_approximate_index(snapshot, faults)
            _check_keyword_index(snapshot, faults)
    except UserError as error:
        faults.append(str(error))
    finally:
        reader.close()
    return IndexCheck(str(folder), rows, tuple(faults), tuple(notes))


def _check_rows(snapshot: Snapshot, faults: list[str], progress: Progress) -> int:
    manifest, name = snapshot.manifest, snapshot.database
    positions = snapshot.positions_where("1", [])
    if len(positions) != manifest.rows:
        faults.append(f"{name}: holds {number_of(len(positions), 'row')}, and should hold {manifest.rows:,}")
    progress.start("checking", len(positions))
    for start in range(0, len(positions), _ROWS):
        block = [int(position) for position in positions[start : start + _ROWS]]
        rows = snapshot.select("place BETWEEN ? AND ?", [block[0], block[-1]])
        faults += [f"{name}: row {position:,} is not as it was written" for position in snapshot.damaged_rows(rows)]
        progress.advance(start + len(block))
    progress.finish()
    return len(positions)


def _check_vectors(snapshot: Snapshot, faults: list[str], notes: list[str]) -> None:
    manifest = snapshot.manifest
    path, row_bytes = snapshot.folder / manifest.vectors, 4 * manifest.dimension
    size = path.stat().st_size if path.exists() else 0
    if size < manifest.slots * row_bytes:
        faults.append(f"{path.name}: has {size:,} bytes, and {manifest.slots * row_bytes:,} are needed")
        return
    sums = snapshot.checksums_of(manifest.vectors)
    if len(sums) < -(-manifest.slots // PAGE):
        notes.append(f"{path.name}: has no checksums (made by an older version); the next add or delete writes them")
    pages = damaged_pages(path, row_bytes, manifest.slots, sums)
    if pages:
        faults.append(page_fault(path.name, pages, manifest.slots))
        return
    for start in range(0, manifest.slots, _ROWS):
        count = min(_ROWS, manifest.slots - start)
        block = np.fromfile(path, dtype="<f4", count=count * manifest.dimension, offset=start * row_bytes)
        if not np.isfinite(block).all():
            faults.append(f"{path.name}: holds NaN or infinity in rows {start:,} to {start + count - 1:,}")
            return


def _check_approximate_index(snapshot: Snapshot, faults: list[str]) -> None:
    manifest = snapshot.manifest
    if manifest.engine is None:
        return
    path = snapshot.folder / manifest.engine
    sums = snapshot.checksums_of(manifest.engine)
    if not path.is_file():
        faults.append(f"{path.name}: is missing")
    elif sums and sums[0] != file_sum(path):
        faults.append(f"{path.name}: is not as it was written")
    else:
        ApproximateIndex.read(path, manifest.slots)


def _check_keyword_index(snapshot: Snapshot, faults: list[str]) -> None:
    manifest = snapshot.manifest
    cache = snapshot.folder / cache_name(snapshot.database, manifest.version, manifest.language)
    if cache.exists() and not is_cache_intact(cache):
        faults.append(f"{cache.name}: is not as it was written; delete it, and the next --hybrid query makes it again")
