"""Finds rows that repeat an earlier one: exactly, or nearly by MinHash (Broder 1997) and locality-sensitive hashing.

Two texts are as similar as their sets of five-character pieces overlap (Jaccard: shared pieces by all pieces), ignoring
letter case and spacing. MinHash estimates the overlap from 128 numbers per text (standard error 0.04 at most), so that
a text is compared only with those that share some of these numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError

if TYPE_CHECKING:
    from types import ModuleType

THRESHOLD = 0.8
_PIECE = 5
# Bands of 4 numbers: nearly every pair that overlaps by .8 shares one (1 - (1 - .8^4)^32).
_NUMBERS, _BANDS = 128, 32
_SEED = 1
_AT_ONCE = 4_000_000
"""Keys that are compared in memory."""
_READ = 1_000_000
"""Rows of keys that are read at a time."""


@dataclass(frozen=True)
class NearDuplicates:
    """Rows that nearly repeat an earlier one.

    Attributes:
        rows: (M,) whether a row nearly repeats an earlier one that itself repeats none.
        examples: some pairs: the row, and the earlier one.
    """

    rows: NDArray[np.bool_]
    examples: list[tuple[int, int]]


def find_near_duplicates(
    rows: Iterable[tuple[str, ...]], threshold: float = THRESHOLD, *, examples: int = 5
) -> NearDuplicates:
    """Finds near duplicates in the order of the rows; uses about half a kilobyte of memory per row.

    Args:
        rows: the texts of each row, which are taken together.
        threshold: Jaccard overlap from which a row counts as repeating another, above 0 and at most 1.
        examples: number of pairs to return.

    Raises:
        UserError: where rensa is not installed.
    """
    rensa = _rensa()
    index = rensa.RMinHashDeduplicator(threshold, _NUMBERS, True, _BANDS, _SEED)
    is_repeat: list[bool] = []
    pairs: list[tuple[int, int]] = []
    for number, row in enumerate(rows):
        numbers = rensa.RMinHash(_NUMBERS, _SEED)
        numbers.update(pieces(" \n ".join(row)))
        repeats = not index.add(str(number), numbers)
        is_repeat.append(repeats)
        if repeats and len(pairs) < examples:
            pairs.append((number, min(int(key) for key in index.get_duplicates(numbers))))
    return NearDuplicates(np.array(is_repeat, dtype=bool), pairs)


def pieces(text: str) -> list[str]:
    """The distinct five-character pieces of a text, ignoring letter case and spacing; a shorter text is one piece."""
    plain = " ".join(text.lower().split())
    return sorted({plain[start : start + _PIECE] for start in range(max(1, len(plain) - _PIECE + 1))})


def _rensa() -> ModuleType:
    try:
        import rensa
    except ImportError:
        raise UserError('near duplicates need rensa: pip install "opencse[dedup]"') from None
    module: ModuleType = rensa
    return module


def count_duplicates(path: Path) -> int:
    """Counts the rows of the (M, C) keys in an ``.npy`` file that repeat an earlier one.

    The rows of a large file are first divided into parts by their key, each in a file of its own, so that equal rows
    are in the same part and one part at a time is in memory.
    """
    shape: tuple[int, int] = np.load(path, mmap_mode="r").shape
    rows, columns = shape
    parts = -(-rows // _AT_ONCE)
    if parts == 1:
        return rows - _distinct(np.concatenate(list(_blocks(path))))
    with TemporaryDirectory(dir=path.parent, prefix="keys.") as folder:
        files = [Path(folder) / str(part) for part in range(parts)]
        for block in _blocks(path):
            # Equal rows have equal keys, and so are in one part.
            part_of_row = block[:, 0] % parts
            for part in np.unique(part_of_row):
                with files[part].open("ab") as stream:
                    block[part_of_row == part].tofile(stream)
        parts_read = (np.fromfile(file, np.int64).reshape(-1, columns) for file in files if file.exists())
        return rows - sum(map(_distinct, parts_read))


def _distinct(rows: NDArray[np.int64]) -> int:
    return len(np.unique(rows if rows.shape[1] > 1 else rows[:, 0], axis=0))


def _blocks(path: Path) -> Iterator[NDArray[np.int64]]:
    with path.open("rb") as stream:
        np.lib.format.read_magic(stream)
        (_, columns), _, dtype = np.lib.format.read_array_header_1_0(stream)
        while len(block := np.fromfile(stream, dtype, _READ * columns)):
            yield block.reshape(-1, columns)
