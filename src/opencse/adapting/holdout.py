"""Holds out a share of a text from training, selected by the hash of its content."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opencse.arrays import Flags, Floats, Integers
from opencse.text.readers import Texts
from opencse.text.scripts import normalised

SHARE, LARGEST_SHARE, ENOUGH_UNITS = 0.1, 0.2, 300
"""A tenth of the text; more of a small text, up to a fifth, because few questions show little."""
MOST_ROWS = 4_000
PASSAGE = 100
"""Rows of a passage: a longer document is split into passages, so that a book can be held out in part."""
_LARGEST = 0.02
"""Share of all rows: a larger group of pairs with common texts is never held out."""


@dataclass(frozen=True)
class HeldOut:
    """Which rows of a text are held out.

    Attributes:
        units: (M,) the document, passage or group of pairs of each row, numbered from 0; each is held out completely or
            not at all.
        held: (M,) rows that questions are made of.
        repeated: (M,) other rows with a text that is also in held-out rows, ignoring letter case and punctuation; left
            out of training so that no answer can be memorised.
    """

    units: Integers
    held: Flags
    repeated: Flags

    @property
    def left_out(self) -> Flags:
        """(M,) rows that must not be trained on."""
        return self.held | self.repeated


def hold_nothing_out(texts: Texts) -> HeldOut:
    """Holds no row of a text out of training.

    >>> hold_nothing_out(Texts([("A cat.",), ("A dog.",)], None, "sentences")).left_out.tolist()
    [False, False]
    """
    none = np.zeros(len(texts.rows), dtype=bool)
    return HeldOut(np.arange(len(texts.rows), dtype=np.int64), none, none)


def hold_out(texts: Texts, share: float | None = None, most: int = MOST_ROWS) -> HeldOut:
    """Holds out units of a text: documents (passages of long ones), groups of pairs with common texts, or sentences.

    A unit is held out if the hash of its texts is in the lowest ``share`` of all hashes. So the selection depends only
    on the content, equal units are held out together, and a text that grows has the same units held out as before.
    Beyond ``most`` rows, the units of the lowest hashes are held out.

    Args:
        texts: the text.
        share: of the units, between 0 and 1; by default ``SHARE``, or what makes ``ENOUGH_UNITS`` units, up to
            ``LARGEST_SHARE``.
        most: most rows to hold out.

    Example:
        >>> texts = Texts([(f"Sentence number {n}.",) for n in range(1000)], None, "sentences")
        >>> held = hold_out(texts)
        >>> int(held.held.sum()), int(held.repeated.sum())
        (204, 0)
    """
    keys = [tuple(normalised(text) for text in row) for row in texts.rows]
    units = _groups(keys) if texts.width > 1 else _passages(keys, texts.documents)
    rows = np.bincount(units)
    hashes = _hashes(keys, units, len(rows))
    if share is None:
        share = min(LARGEST_SHARE, max(SHARE, ENOUGH_UNITS / len(rows)))
    eligible = rows <= max(1, _LARGEST * len(keys)) if texts.width > 1 else np.ones(len(rows), dtype=bool)
    order = np.lexsort((np.arange(len(rows)), hashes))
    order = order[(eligible & (hashes < share * 2.0**64))[order]]
    held_units = order[np.cumsum(rows[order]) <= most]
    held = np.isin(units, held_units)
    held_keys = {key for row, is_held in zip(keys, held, strict=True) if is_held for key in row}
    repeated = np.fromiter((any(key in held_keys for key in row) for row in keys), dtype=bool, count=len(keys)) & ~held
    return HeldOut(units, held, repeated)


def fraction(key: str) -> float:
    """A hash of ``key`` as a number in [0, 2^64)."""
    return float(int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little"))


def _passages(keys: Sequence[tuple[str, ...]], documents: Sequence[int] | None) -> Integers:
    """Numbers of documents, or of passages of long ones; of sentences without order, equal ones are one unit."""
    if documents is None:
        first: dict[tuple[str, ...], int] = {}
        return np.fromiter((first.setdefault(key, len(first)) for key in keys), dtype=np.int64, count=len(keys))
    owner = np.asarray(documents, dtype=np.int64)
    begins = np.r_[True, owner[1:] != owner[:-1]]
    starts = np.flatnonzero(begins)
    inside = np.arange(len(owner)) - starts[np.cumsum(begins) - 1]
    return np.cumsum(begins | (inside % PASSAGE == 0)) - 1


def _groups(keys: Sequence[tuple[str, ...]]) -> Integers:
    """Numbers of the groups of rows that are connected by common texts."""
    above = list(range(len(keys)))  # of each row, an earlier row of its group, or itself

    def first(row: int) -> int:
        while above[row] != row:
            above[row] = row = above[above[row]]
        return row

    seen: dict[str, int] = {}
    for row, texts in enumerate(keys):
        for text in texts:
            one, other = first(seen.setdefault(text, row)), first(row)
            above[max(one, other)] = min(one, other)
    return np.unique([first(row) for row in range(len(keys))], return_inverse=True)[1].astype(np.int64)


def _hashes(keys: Sequence[tuple[str, ...]], units: Integers, count: int) -> Floats:
    """(count,) a hash of the texts of each unit, in [0, 2^64)."""
    digests = [hashlib.blake2b(digest_size=8) for _ in range(count)]
    for row, unit in zip(keys, units.tolist(), strict=True):
        for key in row:
            digests[unit].update(key.encode() + b"\n")
    return np.array([float(int.from_bytes(digest.digest(), "little")) for digest in digests])
