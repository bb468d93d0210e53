"""The positives of an objective: between which vectors they are taken, and how much they count."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any

from opencse.objective.columns import Pairs, Scoring
from opencse.objective.sides.base import Sides
from opencse.objective.sides.views import Views
from opencse.objective.vectors.row_labels import Scores
from opencse.objective.vectors.step import Representations, Request


@dataclass(frozen=True)
class Positive:
    """The vectors that the positive's similarity is taken between, and how much it counts.

    Example:
        >>> import torch
        >>> Positive(copies=2).pairs(Representations.of(torch.eye(2), torch.eye(2)), Scoring()).similarity()
        tensor([1., 1.])

    Attributes:
        of: gives the two vectors; by default the two views.
        scale: multiplies the positive's logit, in the numerator and the denominator.
        copies: how often the positive is in its denominator.
        least_score: a pair of a lower score has no loss of its own; None if every pair is a positive.
    """

    of: Sides = field(default_factory=Views)
    scale: float = 1.0
    copies: int = 1
    least_score: float | None = None

    @property
    def reads(self) -> Set[Request[Any]]:
        """What its sides read, and the scores of the pairs if they count."""
        return {*self.of.reads, *([] if self.least_score is None else [Scores()])}

    def pairs(self, reps: Representations, scoring: Scoring) -> Pairs:
        """The positives of a step."""
        first, second = self.of.of(reps, lambda: self.of.noise(reps))
        counted = None if self.least_score is None else reps[Scores()] >= self.least_score
        return Pairs(first, second, scoring, self.scale, self.copies, counted)
