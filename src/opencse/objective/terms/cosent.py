"""CoSENT as a loss of graded pairs: only the order of their scores counts."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Literal

from pydantic import Field
from torch import Tensor

from opencse.objective.losses.graded import cosent
from opencse.objective.terms.base import Term
from opencse.objective.vectors.requests import Sentences
from opencse.objective.vectors.row_labels import Scores
from opencse.objective.vectors.step import Representations, Request
from opencse.settings import PartSettings


class Cosent(Term):
    """CoSENT: of two pairs of a batch, the one with the higher score should have the higher cosine.

    With cosines c_i and scores y_i of the batch's pairs::

        loss = log( 1 + sum over all i, j with y_i > y_j of exp(scale * (c_j - c_i)) )

    `opencse.objective.losses.cosent` is the loss as a function of tensors, with its sources. The data holds a score in
    each row, see `opencse.text.labels`.

    Example:
        >>> import torch
        >>> from dataclasses import replace
        >>> reps = Representations.of(torch.eye(2), torch.tensor([[1.0, 0.0], [1.0, 0.0]]))  # cosines 1 and 0
        >>> reps = replace(reps, answers={Scores(): torch.tensor([0.2, 0.8])})
        >>> Cosent(Cosent.Settings(scale=1.0)).loss(reps)
        tensor(1.3133)
    """

    class Settings(PartSettings):
        """Settings of `Cosent`.

        Attributes:
            weight: of the term.
            scale: factor of the cosines, one over a temperature.
        """

        kind: Literal["cosent"] = "cosent"
        weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
        scale: float = Field(default=20.0, gt=0, allow_inf_nan=False)

    settings: Settings

    @property
    def reads(self) -> Set[Request[Any]]:
        """The vectors of the pairs, and their scores."""
        return {Sentences(), Scores()}

    def loss(self, reps: Representations) -> Tensor:
        """`losses.cosent` of the pairs."""
        return cosent(reps.anchor, reps.positive, reps[Scores()], scale=self.settings.scale)
