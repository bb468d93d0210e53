"""Which examples a step works on: a fresh order every epoch, from its own generator."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_ORDER_STREAM = 1


class BatchPlan:
    """The batches of a run, each found from its step alone, so a resumed run needs no state but the step.

    Args:
        examples: number of examples, at least 2.
        batch_size: examples in a batch, at least 2.
        seed: of the order, which has a stream of its own: neither dropout nor augmentation moves it.
    """

    def __init__(self, examples: int, batch_size: int, seed: int) -> None:
        if examples < 2 or batch_size < 2:
            raise ValueError("contrast needs at least two examples in a batch")
        self.examples = examples
        self.batch_size = min(batch_size, examples)
        self._order = lru_cache(maxsize=1)(lambda epoch: _permutation(seed, epoch, examples))

    @property
    def steps_per_epoch(self) -> int:
        """Batches in an epoch; a last batch of a single example has no negatives and is left out."""
        full, rest = divmod(self.examples, self.batch_size)
        return full + (1 if rest > 1 else 0)

    def order(self, epoch: int) -> NDArray[np.int64]:
        """The examples of ``epoch`` (from 0) in the order they are visited."""
        return self._order(epoch)

    def batch(self, step: int) -> NDArray[np.int64]:
        """The examples of ``step`` (from 0, counted over all epochs)."""
        epoch, at = divmod(step, self.steps_per_epoch)
        return self._order(epoch)[at * self.batch_size : (at + 1) * self.batch_size]


def _permutation(seed: int, epoch: int, examples: int) -> NDArray[np.int64]:
    return np.random.default_rng([seed, _ORDER_STREAM, epoch]).permutation(examples)
