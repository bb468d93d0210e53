"""The base class of terms: extra losses of an objective."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Set
from typing import Any

from torch import Tensor

from opencse.objective.part import Part
from opencse.objective.vectors.requests import Sentences
from opencse.objective.vectors.step import Representations, Request
from opencse.settings import AboveZero, PartSettings


class Term(Part, ABC):
    """An extra loss: takes the vectors of a step, gives a scalar that the objective multiplies by ``weight``."""

    class Settings(PartSettings):
        """Settings of every term.

        Attributes:
            weight: multiplies the loss.
        """

        weight: AboveZero = 1.0

    settings: Settings
    compares_examples = True
    """Whether it compares the examples of a batch with each other (a term over masked copies does not)."""

    @property
    def called(self) -> str:
        """The term, by its kind."""
        return f"the {self.kind} term"

    @property
    def reads(self) -> Set[Request[Any]]:
        """The vectors of the views."""
        return {Sentences()}

    @property
    def weight(self) -> float:
        """The factor of the term in the total loss."""
        return self.settings.weight

    @abstractmethod
    def loss(self, reps: Representations) -> Tensor:
        """The unweighted term."""
