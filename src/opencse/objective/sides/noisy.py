"""The views with added Gaussian noise on the sides of a similarity."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field
from torch import Tensor

from opencse.objective.noise import standard_normal
from opencse.objective.sides.base import Draw
from opencse.objective.sides.views import Views
from opencse.objective.vectors.step import Representations
from opencse.settings import PartSettings


class Noisy(Views):
    """``(a + g, b + g')`` with g, g' ~ N(0, variance) in each dimension, more noise (SimCSE++, section 3.1, .1).

    The authors' code still has a version of it, with a standard deviation of .1 instead of a variance, which leaves the
    anchors as they are: ``(a, b + g')``, ``both = false``.

    Example:
        >>> import torch
        >>> reps = Representations.of(torch.eye(2), torch.eye(2))
        >>> left, right = Noisy(Noisy.Settings(both=False)).of(reps, lambda: torch.Generator().manual_seed(0))
        >>> bool((left == reps.anchor).all()), bool((right == reps.positive).any())
        (True, False)
    """

    class Settings(PartSettings):
        """Settings of `Noisy`."""

        kind: Literal["noisy"] = "noisy"
        both: bool = True
        variance: float = Field(default=0.1, ge=0, allow_inf_nan=False)

    settings: Settings

    def of(self, reps: Representations, draw: Draw) -> tuple[Tensor, Tensor]:
        """``(a + g, b + g')``, or ``(a, b + g')``."""
        sd, noise = math.sqrt(self.settings.variance), draw()
        anchor = reps.anchor
        if self.settings.both:
            anchor = anchor + sd * standard_normal(anchor.shape, anchor, noise)
        return anchor, reps.positive + sd * standard_normal(reps.positive.shape, reps.positive, noise)
