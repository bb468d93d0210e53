"""Finds rows that repeat an earlier one: exactly, or nearly by MinHash (Broder 1997) and locality-sensitive hashing.

Two texts are as similar as their sets of five-character pieces overlap (Jaccard: shared pieces by all pieces), ignoring
letter case and spacing. MinHash estimates the overlap from 128 numbers per text (standard error 0.04 at most), so that
a text is compared only with those that share some of these numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
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
EXAMPLES = 5
"""Pairs that are returned."""


@dataclass(frozen=True)
class NearDuplicates:
    """Rows that nearly repeat an earlier one.

    Attributes:
        rows: (M,) whether a row nearly repeats an earlier one that itself repeats none.
        examples: some pairs: the row, and the earlier one.
    """

    rows: NDArray[np.bool_]
    examples: list[tuple[int, int]]


def find_near_duplicates(rows: Iterable[tuple[str, ...]], threshold: float) -> NearDuplicates:
    """Finds near duplicates in the order of the rows; uses about half a kilobyte of memory per row.

    Args:
        rows: the texts of each row, which are taken together.
        threshold: Jaccard overlap from which a row counts as repeating another, above 0 and at most 1.

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
        if repeats and len(pairs) < EXAMPLES:
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


def count_duplicates(keys: NDArray[np.int64]) -> int:
    """Counts the rows of (M, C) keys that repeat an earlier one."""
    return len(keys) - len(np.unique(keys if keys.shape[1] > 1 else keys[:, 0], axis=0))
