"""Plans which data set each step of a run over several data sets works on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from opencse.objective.inputs import InputBuilder
from opencse.objective.objective import Objective
from opencse.streams import Stream
from opencse.text.batches import Batches

Mixing = Literal["proportional", "round_robin"]
FIRST = "text"
"""The name of the data set that the run is given first."""


@dataclass(frozen=True)
class DataSet:
    """One data set of a run: what its steps are made of.

    Attributes:
        name: for the user.
        objective: its own; the encoder is that of the run.
        inputs: builds the rows of its steps.
        batches: the examples of its steps, numbered by its own steps.
    """

    name: str
    objective: Objective
    inputs: InputBuilder
    batches: Batches


class MixingPlan:
    """Plans the data set of each step, computed from the number of the step alone, so resuming needs no other state.

    ``proportional``: an epoch has each data set's steps as often as it has them, in an order drawn again every epoch.
    ``round_robin``: the data sets take turns, and an epoch ends when the one with the fewest steps is through.

    Example:
        >>> mixture = MixingPlan([2, 1], "round_robin", seed=1)
        >>> [mixture.at(step) for step in range(4)]
        [(0, 0), (1, 0), (0, 1), (1, 1)]
        >>> mixture = MixingPlan([2, 1], "proportional", seed=1)
        >>> sorted(mixture.at(step) for step in range(6))  # two epochs
        [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)]

    Args:
        steps: of each data set in an epoch, at least 1.
        rule: ``proportional`` or ``round_robin``.
        seed: of the order, which has a random stream of its own.
    """

    def __init__(self, steps: Sequence[int], rule: Mixing, seed: int) -> None:
        if not steps or min(steps) < 1:
            raise ValueError("each data set has at least one step in an epoch")
        self.rule = rule
        self.steps = tuple(steps) if rule == "proportional" else (min(steps),) * len(steps)
        self._seed = seed
        self._order = lru_cache(maxsize=1)(self._drawn)

    @property
    def steps_per_epoch(self) -> int:
        """Steps of all data sets in an epoch."""
        return sum(self.steps)

    def at(self, step: int) -> tuple[int, int]:
        """The number of the data set of ``step`` (from 0), and which of that data set's steps it is (from 0)."""
        if self.rule == "round_robin":
            its_step, number = divmod(step, len(self.steps))
            return number, its_step
        epoch, position = divmod(step, self.steps_per_epoch)
        order, before = self._order(epoch)
        number = int(order[position])
        return number, epoch * self.steps[number] + int(before[position])

    def _drawn(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The data set of each step of an epoch, and how many of its steps come before in this epoch."""
        order = np.repeat(np.arange(len(self.steps)), self.steps)
        order = np.random.default_rng([self._seed, Stream.MIXTURE, epoch]).permutation(order)
        before = np.zeros(len(order), dtype=np.int64)
        for number, count in enumerate(self.steps):
            before[order == number] = np.arange(count)
        return order, before
