"""What the sides of a similarity are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from opencse.objective.part import Part
from opencse.objective.registry import PartOf
from opencse.objective.vectors.step import Representations
from opencse.settings import PartSettings

Draw = Callable[[], torch.Generator]
SidesSettings = Annotated[PartSettings, PartOf("sides")]


class Sides(Part, ABC):
    """Two vectors an example, of which a similarity is taken: representations in, left and right out.

    Attributes:
        of_positives: whether one of them is the positive's own vector, as the view made it.
    """

    of_positives: ClassVar[bool] = True

    @abstractmethod
    def of(self, reps: Representations, draw: Draw) -> tuple[Tensor, Tensor]:
        """The left and the right vectors, each (N, d).

        Args:
            reps: of the step.
            draw: gives the generator that noise comes from.
        """
