"""Means over dropout draws: less noise."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Literal

from pydantic import Field
from torch import Tensor

from opencse.objective.sides.base import Draw, Sides
from opencse.objective.vectors.requests import Means
from opencse.objective.vectors.step import Representations, Request
from opencse.settings import PartSettings


class Mean(Sides):
    """Means of ``samples`` (K) fresh dropout draws of each view, less noise (SimCSE++, section 3.1, K = 10).

    ``shared`` takes one mean on both sides, that of both views' draws (2K of them): the authors' code, which counts
    the two views themselves among its draws.
    """

    of_positives = False

    class Settings(PartSettings):
        """Settings of `Mean`."""

        kind: Literal["mean"] = "mean"
        samples: int = Field(default=10, ge=1, le=1_000_000)
        shared: bool = False

    settings: Settings

    @property
    def reads(self) -> Set[Request[Any]]:
        """The means."""
        return {Means(self.settings.samples)}

    def of(self, reps: Representations, draw: Draw) -> tuple[Tensor, Tensor]:
        """Each view's own mean, or the one of both twice."""
        del draw
        means = reps[Means(self.settings.samples)]
        left, right = means.mean(dim=0).expand_as(means) if self.settings.shared else means
        return left, right
