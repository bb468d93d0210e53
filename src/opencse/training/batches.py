"""Draws the rows that are trained on, and plans which of them each step works on: a new order every epoch."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from opencse.arrays import Integers
from opencse.errors import UserError
from opencse.streams import Stream


class BatchPlan:
    """Plans batches of one size; each follows from the number of its step, so resuming needs no other state.

    Example:
        >>> plan = BatchPlan(examples=5, batch_size=2, seed=1)
        >>> plan.steps_per_epoch  # a last batch of one example has no negatives
        2
        >>> len(plan.batch(0)), set(plan.batch(0)) & set(plan.batch(1))
        (2, set())

    Args:
        examples: number of examples, at least 2.
        batch_size: examples in a full batch, at least 2.
        seed: of the order, which has a random stream of its own: neither dropout nor augmentation changes it.
    """

    def __init__(self, examples: int, batch_size: int, seed: int) -> None:
        self.examples = examples
        self.batch_size = min(batch_size, examples)
        self._order = lru_cache(maxsize=1)(lambda epoch: _permutation(seed, epoch, examples))

    @property
    def steps_per_epoch(self) -> int:
        """Batches in an epoch; a last batch of a single example has no negatives and is left out."""
        full, rest = divmod(self.examples, self.batch_size)
        return full + (1 if rest > 1 else 0)

    def batch(self, step: int) -> NDArray[np.int64]:
        """The examples of ``step`` (from 0, counted over all epochs)."""
        epoch, number = divmod(step, self.steps_per_epoch)
        return self._order(epoch)[number * self.batch_size : (number + 1) * self.batch_size]


class TokenBatchPlan:
    """Plans batches of texts of about equal length, so that there is little padding; for losses without contrast.

    A batch holds as many texts as make ``budget`` tokens when padded. Which texts of a length come together is
    drawn again every epoch, and so is the order of the batches.

    Example:
        >>> plan = TokenBatchPlan(np.array([3, 9, 4, 8]), budget=18, seed=1)
        >>> [sorted(plan.batch(step).tolist()) for step in range(plan.steps_per_epoch)]
        [[1, 3], [0, 2]]

    Args:
        lengths: (M,) tokens of each text.
        budget: tokens in a batch, padding counted, at least the longest text's.
        seed: of the order.
    """

    def __init__(self, lengths: NDArray[np.int64], budget: int, seed: int) -> None:
        ordered = np.sort(lengths)
        self.lengths = lengths
        starts = [0]
        while (room := _fitting(ordered, starts[-1], budget)) < len(ordered):
            starts.append(room)
        self._splits = np.array(starts[1:], dtype=np.int64)
        self._seed = seed
        self._epoch = lru_cache(maxsize=1)(self._make_epoch)

    @property
    def steps_per_epoch(self) -> int:
        """Batches in an epoch."""
        return len(self._splits) + 1

    @property
    def batch_size(self) -> int:
        """Examples in the largest batch."""
        return int(np.diff([0, *self._splits, len(self.lengths)]).max())

    def batch(self, step: int) -> NDArray[np.int64]:
        """The examples of ``step`` (from 0, counted over all epochs)."""
        epoch, number = divmod(step, self.steps_per_epoch)
        return self._epoch(epoch)[number]

    def _make_epoch(self, epoch: int) -> list[NDArray[np.int64]]:
        shuffled = _permutation(self._seed, epoch, len(self.lengths))
        # Stable after a shuffle: texts of one length meet others in each epoch.
        by_length = shuffled[np.argsort(self.lengths[shuffled], kind="stable")]
        batches = np.split(by_length, self._splits)
        order = np.random.default_rng([self._seed, Stream.BATCH, epoch]).permutation(len(batches))
        return [batches[i] for i in order]


Batches = BatchPlan | TokenBatchPlan
"""A plan of batches: gives the examples of a step, computed from the number of the step alone."""


def _fitting(ordered: NDArray[np.int64], start: int, budget: int) -> int:
    """End of the longest run from ``start`` whose count times its longest length is within ``budget``."""
    low, high = start + 1, min(len(ordered), start + budget // int(ordered[start]))
    while low < high:
        middle = (low + high + 1) // 2
        if int(ordered[middle - 1]) * (middle - start) <= budget:
            low = middle
        else:
            high = middle - 1
    return low


def _permutation(seed: int, epoch: int, examples: int) -> NDArray[np.int64]:
    return np.random.default_rng([seed, Stream.ORDER, epoch]).permutation(examples)


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
