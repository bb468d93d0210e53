"""What an objective makes of a step: its losses, and figures for the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class StepLosses:
    """The weighted losses of a step, whose sum is minimised, and its figures for the log."""

    losses: dict[str, Tensor]
    report: dict[str, Tensor]

    @property
    def total(self) -> Tensor:
        """The scalar to differentiate."""
        return torch.stack(list(self.losses.values())).sum()

    def detached(self) -> StepLosses:
        """The same without gradients."""
        return StepLosses({name: loss.detach() for name, loss in self.losses.items()}, self.report)

    @classmethod
    def mean(cls, outcomes: Sequence[StepLosses]) -> StepLosses:
        """The mean of each loss and each figure over the batches of a step."""
        if len(outcomes) == 1:
            return outcomes[0]
        first = outcomes[0]
        return cls(
            {name: torch.stack([o.losses[name] for o in outcomes]).mean() for name in first.losses},
            {name: torch.stack([o.report[name] for o in outcomes]).mean() for name in first.report},
        )
