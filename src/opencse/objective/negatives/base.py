"""The base classes of negative sources: what an anchor is pushed away from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Set
from typing import Any, ClassVar

from opencse.objective.columns import AnyColumns, Scoring
from opencse.objective.part import Part
from opencse.objective.vectors.requests import Sentences
from opencse.objective.vectors.step import Representations, Request


class NegativeSource(Part, ABC):
    """A source of negatives: takes the vectors of a step, gives columns of the contrast's denominator."""

    @property
    def called(self) -> str:
        """The negatives, by their kind."""
        return f"the {self.kind} negatives"

    @property
    def reads(self) -> Set[Request[Any]]:
        """The vectors of the views."""
        return {Sentences()}

    of_both_sides: ClassVar[bool] = True
    """Whether it has columns of the positives too, if `Objective.directions` reads the columns."""

    @property
    def averaged_with_plain(self) -> bool:
        """Whether the loss is the mean of the losses with and without this source's columns."""
        return False

    @property
    def gives_logits(self) -> bool:
        """Whether `columns` gives similarities; ``objective.matryoshka`` needs vectors, which it truncates."""
        return False

    @abstractmethod
    def columns(self, reps: Representations, scoring: Scoring) -> AnyColumns:
        """This source's columns of the denominator: by their vectors, or as logits if they are few."""

    @abstractmethod
    def count(self, batch_size: int, hard: int) -> int:
        """Columns per anchor in a full batch, for the plan that is printed."""
