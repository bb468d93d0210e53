"""Moves the weights by one step: gradients, clipping, optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from opencse.objective.objective import Objective, StepLosses
from opencse.objective.vectors.step import Representations, StepInputs
from opencse.training.optimizer import trained_weights
from opencse.training.step import Step


@dataclass(frozen=True)
class Updated:
    """What one step gave, at the weights before it.

    Attributes:
        reps: the last batch's vectors, without gradient.
        losses: the mean losses and figures, with the norm of the gradient before it was clipped.
    """

    reps: Representations
    losses: StepLosses

    def with_figures(self, objective: Objective) -> Updated:
        """The same with the figures that `Objective.diagnose` gives of the vectors."""
        report = self.losses.report | _figures(objective, self.reps)
        return Updated(self.reps, StepLosses(self.losses.losses, report))


def _figures(objective: Objective, reps: Representations) -> dict[str, Tensor]:
    with torch.no_grad():
        return objective.diagnose(reps)


@dataclass(frozen=True)
class Update:
    """Makes steps: the gradients of ``step``, clipped together, and one move of the optimizer.

    Attributes:
        step: gives the gradients.
        optimizer: moves the weights.
        max_norm: the gradients are clipped to this norm.
    """

    step: Step
    optimizer: torch.optim.Optimizer
    max_norm: float

    def __call__(self, batches: Sequence[StepInputs], *, diagnose: bool = False) -> Updated:
        """Makes a step on ``batches``; the gradients stay until `clear`.

        Args:
            batches: of the step.
            diagnose: add the figures that are too expensive for every step.
        """
        reps, outcome = self.step.gradients(batches)
        figures = _figures(self.step.objective, reps) if diagnose else {}
        # one norm for encoder and parts: clipped one by one, the step would turn
        norm = nn.utils.clip_grad_norm_(trained_weights(self.optimizer), self.max_norm)
        self.optimizer.step()
        return Updated(reps, StepLosses(outcome.losses, outcome.report | {"gradient_norm": norm} | figures))

    def clear(self) -> None:
        """Drops the gradients."""
        self.optimizer.zero_grad(set_to_none=True)  # not to zeros: AdamW would decay what no row has reached
