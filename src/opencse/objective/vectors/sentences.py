"""The sentence vectors of the views, and of the data's hard negatives: they are in every step's representations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from opencse.objective.vectors.request import Forward, Made, Request


@dataclass(frozen=True)
class Sentences(Request[None]):
    """The anchors' and the positives' vectors: ``Representations.anchor`` and ``positive``."""

    def ask(self, forward: Forward) -> Callable[[Made], None]:
        """Nothing more than the forward makes anyway."""
        del forward
        return lambda made: None


@dataclass(frozen=True)
class HardNegatives(Sentences):
    """The data's hard negatives have rows too: ``Representations.hard``."""
