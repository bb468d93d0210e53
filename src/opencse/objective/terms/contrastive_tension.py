"""Contrastive tension: pairs of one sentence and of two sentences, as an extra loss or alone."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from opencse.errors import UserError
from opencse.objective.losses.tension import contrastive_tension
from opencse.objective.terms.base import Term
from opencse.objective.vectors.step import Representations
from opencse.settings import PartSettings


class ContrastiveTension(Term):
    """Decides for pairs of vectors whether they are of one sentence (Carlsson et al. 2021).

    The pairs are the N pairs ``(a_i, b_i)``, and ``negatives`` times as many ``(a_i, b_j)`` with i and j drawn from the
    batch, i != j, again at each step; a sentence may be drawn more than once. With ``objective.dual_encoder`` a and b
    are the vectors of the two encoders, as in the paper. `opencse.objective.losses.contrastive_tension` is the loss.

    The authors' code puts 2 sentences with themselves and 14 pairs of others into a batch, drawn from the corpus. Here
    all pairs are of the batch's sentences, so each vector is used several times.

    Example:
        >>> reps = Representations.of(3 * torch.eye(2), 3 * torch.eye(2))
        >>> ContrastiveTension(ContrastiveTension.Settings(negatives=1)).loss(reps).round(decimals=4)
        tensor(0.3466)
    """

    class Settings(PartSettings):
        """Settings of `ContrastiveTension`.

        Attributes:
            weight: of the term.
            negatives: pairs of two sentences for each pair of one.
        """

        kind: Literal["contrastive_tension"] = "contrastive_tension"
        weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
        negatives: int = Field(default=7, ge=1, le=65_536)

    settings: Settings

    def pairs(self, reps: Representations) -> tuple[Tensor, Tensor]:
        """(P,), (P,): the numbers of the anchors and the positives of each pair; the first N are one sentence each.

        Raises:
            UserError: for a batch of one sentence, which has no second one.
        """
        n, device = len(reps.anchor), reps.anchor.device
        if n < 2:
            raise UserError(f"the {self.kind} term needs two sentences in a batch; set a larger training.batch_size")
        count, noise = n * self.settings.negatives, self.noise(reps)
        first = torch.randint(n, (count,), generator=noise, device=device)
        second = (first + 1 + torch.randint(n - 1, (count,), generator=noise, device=device)) % n
        same = torch.arange(n, device=device)
        return torch.cat([same, first]), torch.cat([same, second])

    def loss(self, reps: Representations) -> Tensor:
        """Mean binary cross-entropy over all pairs."""
        first, second = self.pairs(reps)
        labels = torch.arange(len(first), device=first.device) < len(reps.anchor)
        return contrastive_tension(reps.anchor[first], reps.positive[second], labels)
