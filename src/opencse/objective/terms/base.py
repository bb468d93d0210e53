"""What every extra loss term is."""

from __future__ import annotations

from torch import Tensor, nn

from opencse.objective.representations import Needs, Representations


class Term(nn.Module):
    """An extra loss: representations in, a scalar out; the objective multiplies it by ``weight``."""

    needs = Needs()
    weight: float

    def loss(self, reps: Representations) -> Tensor:
        """The unweighted term."""
        raise NotImplementedError

    def after_step(self, reps: Representations) -> None:
        """Called once after the optimizer's step, with that step's (detached) representations."""
