"""What every negative source is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Set
from typing import Any

from opencse.objective.columns import AnyColumns, Scoring
from opencse.objective.part import Part
from opencse.objective.vectors.requests import Sentences
from opencse.objective.vectors.step import Representations, Request


class NegativeSource(Part, ABC):
    """Something an anchor is pushed from: representations in, columns out."""

    @property
    def reads(self) -> Set[Request[Any]]:
        """The vectors of the views."""
        return {Sentences()}

    @property
    def averaged_with_plain(self) -> bool:
        """Whether the loss is the mean of those with and without this source's columns."""
        return False

    @property
    def stored(self) -> int:
        """Vectors of earlier steps that it stores at most; 0 for none, and before it has begun."""
        return 0

    @abstractmethod
    def columns(self, reps: Representations, scoring: Scoring) -> AnyColumns:
        """This source's columns of the denominator: by their vectors, or as logits where they are few."""

    @abstractmethod
    def count(self, batch_size: int, hard: int) -> int:
        """Columns an anchor gets from this source in a full batch (for the plan that is printed)."""
