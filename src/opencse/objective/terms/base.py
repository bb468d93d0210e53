"""What every extra loss term is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Set
from typing import Any

from torch import Tensor

from opencse.objective.part import Part
from opencse.objective.vectors.requests import Sentences
from opencse.objective.vectors.step import Representations, Request


class Term(Part, ABC):
    """An extra loss: representations in, a scalar out; the objective multiplies it by ``weight``."""

    compares_examples = True
    """Whether it sets the examples of a batch against each other (a term over masked copies does not)."""

    @property
    def reads(self) -> Set[Request[Any]]:
        """The vectors of the views."""
        return {Sentences()}

    @property
    def weight(self) -> float:
        """What the objective multiplies the term by."""
        return float(self.settings.weight)

    @abstractmethod
    def loss(self, reps: Representations) -> Tensor:
        """The unweighted term."""
