"""What every part with a say in the loss is."""

from __future__ import annotations

from torch import nn

from opencse.objective.representations import Needs, Representations


class Part(nn.Module):
    """A negative source or a term: says what it reads, and may carry state from step to step.

    State (a queue, a momentum encoder) is buffers and modules, so that it is part of ``state_dict``.
    """

    needs: Needs = Needs()

    def after_step(self, reps: Representations) -> None:
        """Called once after the optimizer's step, with that step's (detached) representations."""
