"""The view of objectives that read one vector of each sentence: no second one is made."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from opencse.objective.views.base import DerivesPositives, SentenceView
from opencse.settings import PartSettings


class Itself(DerivesPositives, SentenceView):
    """``b = a``: the positive is the anchor's own vector, and each sentence is encoded once.

    It is for objectives whose terms or negatives read the anchors alone, in half the time of two views.

    Example:
        >>> Itself().derive(torch.tensor([[1.0, 2.0]]), torch.Generator())
        tensor([[1., 2.]])
    """

    class Settings(PartSettings):
        """Settings of `Itself`."""

        kind: Literal["itself"] = "itself"

    def derive(self, anchors: Tensor, noise: torch.Generator) -> Tensor:
        """The anchors as they are."""
        del noise
        return anchors
