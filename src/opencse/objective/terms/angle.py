"""AnglE as a loss of graded pairs: their order by an angle in complex space."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Literal

from pydantic import Field
from torch import Tensor

from opencse.objective.losses.graded import angle
from opencse.objective.terms.base import Term
from opencse.objective.vectors.requests import Sentences
from opencse.objective.vectors.row_labels import Scores
from opencse.objective.vectors.step import Representations, Request
from opencse.settings import PartSettings


class Angle(Term):
    """AnglE: the order of graded pairs by their angles in complex space, which do not saturate as a cosine does.

    The loss is that of the term ``cosent`` with `opencse.objective.losses.angle_similarity` in place of the cosine;
    `opencse.objective.losses.angle` is the function of tensors, with its sources.

    Example:
        >>> import torch
        >>> from dataclasses import replace
        >>> reps = Representations.of(torch.eye(2), torch.tensor([[1.0, 0.0], [1.0, 1.0]]))
        >>> reps = replace(reps, answers={Scores(): torch.tensor([1.0, 0.0])})
        >>> Angle(Angle.Settings(scale=20.0)).loss(reps) > Angle(Angle.Settings(scale=1.0)).loss(reps)
        tensor(True)
    """

    class Settings(PartSettings):
        """Settings of `Angle`.

        Attributes:
            weight: of the term.
            scale: factor of the similarities: 1 in the authors' code, 20 in sentence-transformers.
        """

        kind: Literal["angle"] = "angle"
        weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
        scale: float = Field(default=1.0, gt=0, allow_inf_nan=False)

    settings: Settings

    @property
    def reads(self) -> Set[Request[Any]]:
        """The vectors of the pairs, and their scores."""
        return {Sentences(), Scores()}

    def loss(self, reps: Representations) -> Tensor:
        """`losses.angle` of the pairs."""
        return angle(reps.anchor, reps.positive, reps[Scores()], scale=self.settings.scale)
