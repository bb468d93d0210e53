"""What every extra loss term is."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from opencse.objective.part import Part
from opencse.objective.representations import Representations


class Term(Part, ABC):
    """An extra loss: representations in, a scalar out; the objective multiplies it by ``weight``."""

    weight: float

    @abstractmethod
    def loss(self, reps: Representations) -> Tensor:
        """The unweighted term."""
