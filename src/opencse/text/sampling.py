"""Draws the rows of a text that a run is trained on, where it does not use all of them."""

from __future__ import annotations

import numpy as np

from opencse.arrays import Integers
from opencse.errors import UserError
from opencse.streams import Stream


def sample_rows(rows: Integers, *, count: int | None, share: float | None, seed: int, source: str) -> Integers | None:
    """Draws some of ``rows`` without replacement.

    The draw depends on the seed and on the rows alone. They are the first ones of a random order, so that a smaller
    sample with the same seed is part of a larger one.

    Args:
        rows: (n,) distinct numbers of rows.
        count: how many to draw; None for ``share``.
        share: instead of ``count``, the share of them, rounded, at least 2.
        seed: of the draw.
        source: name of the text, for messages.

    Returns:
        The drawn rows in ascending order; None where neither ``count`` nor ``share`` is given.

    Raises:
        UserError: for more rows than there are.

    Example:
        >>> import numpy as np
        >>> sample_rows(np.arange(10), count=4, share=None, seed=0, source="a.txt").tolist()
        [1, 3, 5, 9]
    """
    if count is None and share is None:
        return None
    drawn = max(2, round((share or 0.0) * len(rows))) if count is None else count
    if drawn > len(rows):
        raise UserError(f"{source}: data.rows {drawn:,} is more than the {len(rows):,} rows that it can train on")
    order = np.random.default_rng([seed, Stream.SAMPLE]).permutation(len(rows))
    return np.sort(rows[order[:drawn]])
