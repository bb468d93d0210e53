"""Reads an index whole and compares it with the checksums that were written with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opencse.errors import UserError
from opencse.progress import Progress
from opencse.search.checksums import PAGE, file_sum, page_fault, wrong_pages
from opencse.search.database import Facts
from opencse.search.engines import Engine
from opencse.search.kept_words import place_of, words_are_sound
from opencse.search.store import Store

_ROWS = 10_000


@dataclass(frozen=True)
class IndexCheck:
    """What a check of an index found.

    Attributes:
        folder: of the index.
        rows: that were read.
        faults: what is damaged, one sentence each; empty for a sound index.
        notes: what could not be checked, for instance since the index was made before there were checksums.
    """

    folder: str
    rows: int
    faults: tuple[str, ...]
    notes: tuple[str, ...]


def check(folder: Path, progress: Progress) -> IndexCheck:
    """Checks every file of the index in ``folder``, of one moment.

    Raises:
        UserError: if there is no index.
    """
    store = Store.open(folder)
    faults: list[str] = []
    notes: list[str] = []
    rows = 0
    try:
        with store.snapshot() as facts:
            faults += [f"{store.name}: {line}" for line in store.faults()]
            rows = _rows(store, facts, faults, progress)
            _vectors(store, facts, faults, notes)
            _others(store, facts, faults)
    except UserError as error:
        faults.append(str(error))
    finally:
        store.close()
    return IndexCheck(str(folder), rows, tuple(faults), tuple(notes))


def _rows(store: Store, facts: Facts, faults: list[str], progress: Progress) -> int:
    places = store.places("1", [], facts)
    if len(places) != facts.rows:
        faults.append(f"{store.name}: holds {len(places):,} rows, and says that it holds {facts.rows:,}")
    progress.start("checking", len(places))
    for start in range(0, len(places), _ROWS):
        wanted = [int(place) for place in places[start : start + _ROWS]]
        found = store.select("place BETWEEN ? AND ?", [wanted[0], wanted[-1]], facts)
        faults += [f"{store.name}: row {place:,} is not as it was written" for place in store.wrong_rows(found, facts)]
        progress.advance(start + len(wanted))
    progress.finish()
    return len(places)


def _vectors(store: Store, facts: Facts, faults: list[str], notes: list[str]) -> None:
    path, row = store.folder / facts.vectors, 4 * facts.dimension
    size = path.stat().st_size if path.exists() else 0
    if size < facts.slots * row:
        faults.append(f"{path.name}: has {size:,} bytes, and {facts.slots * row:,} are needed")
        return
    sums = store.sum_of(facts.vectors)
    if len(sums) < -(-facts.slots // PAGE):
        notes.append(f"{path.name}: has no checksums (made before there were any); the next add or delete writes them")
    wrong = wrong_pages(path, row, facts.slots, sums)
    if wrong:
        faults.append(page_fault(path.name, wrong, facts.slots))
        return
    for start in range(0, facts.slots, _ROWS):
        count = min(_ROWS, facts.slots - start)
        part = np.fromfile(path, dtype="<f4", count=count * facts.dimension, offset=start * row)
        if not np.isfinite(part).all():
            faults.append(f"{path.name}: holds NaN or infinity in rows {start:,} to {start + count - 1:,}")
            return


def _others(store: Store, facts: Facts, faults: list[str]) -> None:
    if facts.engine is not None:
        path = store.folder / facts.engine
        sums = store.sum_of(facts.engine)
        if not path.is_file():
            faults.append(f"{path.name}: is missing")
        elif sums and sums[0] != file_sum(path):
            faults.append(f"{path.name}: is not as it was written")
        else:
            Engine.read(path, facts.slots)
    words = store.folder / place_of(store.name, facts.version, facts.language)
    if words.exists() and not words_are_sound(words):
        faults.append(f"{words.name}: is not as it was written; delete it, and the next --hybrid query makes it again")
