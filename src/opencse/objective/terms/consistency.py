"""Lets both views rank the examples of a batch in the same way."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor

from opencse.objective.losses.distillation import jensen_shannon, negative_entropy
from opencse.objective.losses.similarity import pairwise_similarity
from opencse.objective.terms.base import Term
from opencse.objective.vectors.step import Representations
from opencse.settings import PartSettings


class Consistency(Term):
    """The divergence of each example's similarities as its anchor and as its positive has them (RankCSE, eq. 6).

    With ``s_i = cos(a_i, b_j) / temperature`` over j, and ``t_i = cos(b_i, a_j) / temperature``, the loss is
    `losses.jensen_shannon` of their softmax (Liu et al. 2023, arXiv:2305.16726). ``scaling = "reference"`` is what the
    published community code computes in its place: `losses.negative_entropy`, in which the two views do not meet.

    Example:
        >>> import torch
        >>> views = torch.eye(2), torch.tensor([[1.0, 0.0], [1.0, 1.0]])
        >>> Consistency(Consistency.Settings(temperature=1.0)).loss(Representations.of(*views))
        tensor(0.0144)
    """

    class Settings(PartSettings):
        """Settings of `Consistency`.

        Attributes:
            weight: of the term.
            temperature: divides the cosines.
            scaling: ``paper`` or ``reference``.
        """

        kind: Literal["consistency"] = "consistency"
        weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
        temperature: float = Field(default=0.05, gt=0, allow_inf_nan=False)
        scaling: Literal["paper", "reference"] = "paper"

    settings: Settings

    def loss(self, reps: Representations) -> Tensor:
        """The divergence, the mean over the examples."""
        rows = pairwise_similarity(reps.anchor, reps.positive, "cosine") / self.settings.temperature
        function = jensen_shannon if self.settings.scaling == "paper" else negative_entropy
        return function(rows, rows.T)
