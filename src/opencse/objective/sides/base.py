"""The base class of sides: the two vectors that a similarity is taken between."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor

from opencse.objective.part import Part
from opencse.objective.registry import PartOf
from opencse.objective.vectors.step import Representations
from opencse.settings import PartSettings

Draw = Callable[[], torch.Generator]
SideText = Literal["anchor", "positive"]
SidesSettings = Annotated[PartSettings, PartOf("sides")]


class Sides(Part, ABC):
    """Gives the two vectors per example that a similarity is taken between.

    Attributes:
        of_positives: whether one of them is the positive's own vector, as the view made it.
        texts: the texts that the left and the right vectors are of.
    """

    of_positives: ClassVar[bool] = True
    texts: ClassVar[tuple[SideText, SideText]] = ("anchor", "positive")

    @property
    def same_mirrored(self) -> bool:
        """Whether the vectors stay the same where anchors and positives are exchanged (`Objective.directions`)."""
        return False

    @abstractmethod
    def of(self, reps: Representations, draw: Draw) -> tuple[Tensor, Tensor]:
        """The left and the right vectors, each (N, d).

        Args:
            reps: the vectors of the step.
            draw: gives the generator of noise.
        """
