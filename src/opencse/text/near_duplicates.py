"""Texts that nearly repeat an earlier one, found by MinHash (Broder 1997) and locality-sensitive hashing.

Two texts are as near as their sets of five-character pieces overlap (Jaccard: shared pieces by all pieces), letter
case and spacing apart. MinHash estimates it from 128 numbers a text (standard error 0.04 at most), so that a text is
compared only with those that share some of these numbers.
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
_NUMBERS, _BANDS = 128, 32
_SEED = 1


@dataclass(frozen=True)
class NearDuplicates:
    """What was found.

    Attributes:
        rows: (M,) whether a row nearly repeats an earlier one that itself repeats none.
        examples: some pairs: the row, and the earlier one.
    """

    rows: NDArray[np.bool_]
    examples: list[tuple[int, int]]


def find_near_duplicates(
    rows: Iterable[tuple[str, ...]], threshold: float = THRESHOLD, *, examples: int = 5
) -> NearDuplicates:
    """Looks for them in the order of the rows; about half a kilobyte of memory a row.

    Args:
        rows: the texts of each row, which are taken together.
        threshold: Jaccard overlap from which on a row repeats another, above 0 and at most 1.
        examples: pairs that are given.

    Raises:
        UserError: where rensa is not installed.
    """
    rensa = _rensa()
    kept = rensa.RMinHashDeduplicator(threshold, _NUMBERS, True, _BANDS, _SEED)
    found: list[bool] = []
    pairs: list[tuple[int, int]] = []
    for number, row in enumerate(rows):
        numbers = rensa.RMinHash(_NUMBERS, _SEED)
        numbers.update(pieces(" \n ".join(row)))
        repeats = not kept.add(str(number), numbers)
        found.append(repeats)
        if repeats and len(pairs) < examples:
            pairs.append((number, min(int(key) for key in kept.get_duplicates(numbers))))
    return NearDuplicates(np.array(found, dtype=bool), pairs)


def pieces(text: str) -> list[str]:
    """The distinct five-character pieces of a text, letter case and spacing apart; of a shorter one, itself."""
    plain = " ".join(text.lower().split())
    return sorted({plain[start : start + _PIECE] for start in range(max(1, len(plain) - _PIECE + 1))})


def _rensa() -> ModuleType:
    try:
        import rensa
    except ImportError:
        raise UserError('near duplicates need rensa: pip install "opencse[dedup]"') from None
    module: ModuleType = rensa
    return module
