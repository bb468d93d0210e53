"""What every extra loss term is."""

from __future__ import annotations

from torch import Tensor

from opencse.objective.part import Part
from opencse.objective.representations import Representations


class Term(Part):
    """An extra loss: representations in, a scalar out; the objective multiplies it by ``weight``."""

    weight: float

    def loss(self, reps: Representations) -> Tensor:
        """The unweighted term."""
        raise NotImplementedError
