"""Pushes the two views of a text apart, as an extra loss (SCD)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor

from opencse.objective.losses.similarity import rowwise_similarity
from opencse.objective.terms.base import Term
from opencse.objective.vectors.step import Representations
from opencse.settings import PartSettings


class Repulsion(Term):
    """The mean similarity of a text's two views, which is made smaller (Klein and Nabi 2022, SCD).

    ::

        loss = mean over i of cos(a_i, b_i) / tau

    It alone would ruin the vectors; SCD adds Barlow Twins after a projector, which holds the views together.

    Example:
        >>> import torch
        >>> reps = Representations.of(torch.eye(2), torch.tensor([[2.0, 0.0], [1.0, 0.0]]))
        >>> Repulsion(Repulsion.Settings(temperature=0.5)).loss(reps)  # cosines 1 and 0
        tensor(1.)
    """

    class Settings(PartSettings):
        """Settings of `Repulsion`.

        Attributes:
            weight: of the term.
            temperature: tau.
        """

        kind: Literal["repulsion"] = "repulsion"
        weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
        temperature: float = Field(default=0.05, gt=0, allow_inf_nan=False)

    settings: Settings
    compares_examples = False

    def loss(self, reps: Representations) -> Tensor:
        """Mean cosine of the pairs, divided by the temperature."""
        return rowwise_similarity(reps.anchor, reps.positive, "cosine").mean() / self.settings.temperature
