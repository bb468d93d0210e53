"""The positives of an objective: between which vectors they are taken, and how much they count."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any

from opencse.errors import UserError
from opencse.objective.columns import Pairs, Scoring
from opencse.objective.sides.base import Sides
from opencse.objective.sides.views import Views
from opencse.objective.vectors.row_labels import Scores
from opencse.objective.vectors.step import Representations, Request
from opencse.objective.views.base import SentenceView, View


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

    def check(self, view: View) -> None:
        """Refuses to compare a text with itself where ``view`` has another text as its positive.

        Raises:
            UserError: in one line.
        """
        if len(set(self.of.texts)) == 1 and not isinstance(view, SentenceView):
            raise UserError(
                f"objective.positive.of = {self.of.kind} compares a text with itself, so the second text of the view "
                f"{view.kind} would be no positive; choose other vectors, or a view of single sentences"
            )

    def pairs(self, reps: Representations, scoring: Scoring) -> Pairs:
        """The positives of a step."""
        first, second = self.of.of(reps, lambda: self.of.noise(reps))
        counted = None if self.least_score is None else reps[Scores()] >= self.least_score
        return Pairs(first, second, scoring, self.scale, self.copies, counted)
