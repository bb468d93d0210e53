"""The gradients of a step: one pass, or two around a worst case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from opencse.encoder.encoder import Disturb, SentenceEncoder
from opencse.objective.objective import Objective, Outcome
from opencse.objective.representations import Representations, StepInputs
from opencse.training.precision import Precision
from opencse.training.worst_case import WorstCase


@dataclass(frozen=True)
class Step:
    """Inputs -> gradients in the parameters; the same for training and for measuring its pace.

    Attributes:
        encoder: what is trained.
        objective: what it is trained for.
        precision: arithmetic of the forward pass.
        backward: differentiates a scalar.
        worst_case: two passes instead of one, if given.
    """

    encoder: SentenceEncoder
    objective: Objective
    precision: Precision
    backward: Callable[[Tensor], None] = torch.autograd.backward
    worst_case: WorstCase | None = None

    def gradients(self, inputs: StepInputs) -> tuple[Representations, Outcome]:
        """Leaves the step's gradients in the parameters, and shows the parts what was made.

        Returns:
            The vectors, without gradient, and the losses, of the weights as they are.
        """

        def forward_backward(disturb: Disturb | None) -> tuple[Representations, Outcome]:
            with self.precision.autocast(self.encoder.device):
                reps = self.objective.represent(self.encoder, inputs, disturb=disturb)
            outcome = self.objective(reps)
            self.backward(outcome.total)
            return reps.detached(), outcome

        if self.worst_case is None:
            reps, outcome = forward_backward(None)
        else:
            reps, outcome = self.worst_case.gradients(forward_backward, inputs.noise(2))
        with torch.no_grad(), self.precision.autocast(self.encoder.device):
            self.objective.after_backward(self.encoder, inputs, reps)
        return reps, outcome
