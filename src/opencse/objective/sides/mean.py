"""Means over dropout draws on the sides of a similarity: less noise."""

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

    Example:
        >>> import torch
        >>> from dataclasses import replace
        >>> means = torch.stack([torch.eye(2), torch.ones(2, 2)])  # of the anchors, of the positives
        >>> reps = replace(Representations.of(torch.eye(2), torch.eye(2)), answers={Means(10): means})
        >>> left, right = Mean(Mean.Settings(shared=True)).of(reps, torch.Generator)
        >>> left.tolist()
        [[1.0, 0.5], [0.5, 1.0]]
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

    @property
    def same_mirrored(self) -> bool:
        """As one mean of both views is."""
        return self.settings.shared

    def of(self, reps: Representations, draw: Draw) -> tuple[Tensor, Tensor]:
        """Each view's own mean, or the one of both twice."""
        del draw
        means = reps[Means(self.settings.samples)]
        anchors, positives = means.mean(dim=0).expand_as(means) if self.settings.shared else means
        return anchors, positives
