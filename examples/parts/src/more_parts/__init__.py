"""Two parts of one's own: a negative source and a term, nothing of OpenCSE changed."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import normalize

from opencse.objective.columns import LogitColumns, Scoring
from opencse.objective.negatives.base import NegativeSource
from opencse.objective.terms.base import Term
from opencse.objective.vectors.step import Representations
from opencse.settings import PartSettings


class Between(NegativeSource):
    """One negative an anchor, between two other examples' positives (Kalantidis et al. 2020, eq. 4, drawn at random).

    ``sim(a_i, m_i) / tau`` with ``m_i = share * b_j + (1 - share) * b_k``, both of length 1; how far j and k are from i
    in the batch is drawn at every step, and no gradient flows into the mixture.
    """

    class Settings(PartSettings):
        """``share``: how much of the first positive is in the negative."""

        kind: Literal["between"] = "between"
        share: float = Field(default=0.5, gt=0, lt=1)

    settings: Settings

    def count(self, batch_size: int, hard: int) -> int:
        """One column."""
        return 1

    def columns(self, reps: Representations, scoring: Scoring) -> LogitColumns:
        """(N, 1) columns."""
        noise, share = self.noise(reps), self.settings.share
        others = normalize(reps.positive.detach(), dim=1)
        shift = int(torch.randint(1, max(2, len(others) - 1), (), generator=noise, device=noise.device))
        between = share * others.roll(shift, dims=0) + (1 - share) * others.roll(shift + 1, dims=0)
        return LogitColumns(scoring.own_logits(reps.anchor, between).unsqueeze(1))


class Uniformity(Term):
    """How evenly vectors lie on the sphere: ``log mean exp(-2 |x_i - x_j|^2)`` (Wang and Isola 2020, t = 2)."""

    class Settings(Term.Settings):
        """With another weight than 1."""

        kind: Literal["uniformity"] = "uniformity"
        weight: float = Field(default=0.1, gt=0)

    settings: Settings

    def loss(self, reps: Representations) -> Tensor:
        """Over the pairs i < j of the anchors."""
        distances = torch.pdist(normalize(reps.anchor.float(), dim=1))
        return distances.square().mul(-2).exp().mean().log()
