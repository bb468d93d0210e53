"""Dimension-wise contrastive learning (DCL) as an extra loss."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor

from opencse.errors import UserError
from opencse.objective.losses.dimensions import dcl, dcl_rank
from opencse.objective.terms.base import Term
from opencse.objective.vectors.step import Representations
from opencse.settings import PartSettings


class DCL(Term):
    """Dimension-wise contrast: each dimension of one view should be most like itself in the other (SimCSE++, eq. 5).

    With y^1, y^2 the (N, D) anchors and positives, each dimension with mean 0 and variance 1 over the batch::

        s_cd = sum_i y^1_ic y^2_id / temperature
        loss = sum_c ( -s_cc + log sum_d exp(s_cd) )

    That is ``scaling = "paper"``. ``"reference"`` is the authors' code, another regime under the same name:

    ============================  =========================  ==================================
    .                             paper                      reference
    ============================  =========================  ==================================
    variance                      unbiased (N - 1)           biased (N), plus 1e-5
    s_cd                          as above                   divided by N too
    loss                          sum over c                 mean over c
    s_cc; sd of s_cd, c != d      11.4; 1.6                  .18; .025
    mean over c of the loss       .03 (their sum: 25)        6.46 (log D is 6.64)
    ============================  =========================  ==================================

    (numbers: N = 64, D = 768, temperature 5, the two views of a dimension correlated by .905). In the paper's regime
    the softmax is sharp; in the code's it is nearly uniform, which makes the term a weak, nearly constant pull: up on
    the diagonal, down on everything else. Where the authors train in several processes, their s_cd is larger by the
    number of processes.

    In the paper's scaling s grows with N, so a temperature goes with a batch: what 5 is at 64 examples, 20 is at 256.
    If the two views are similar and the temperature is too low for the batch, the term is 0 from the first step
    (docs/results/small-starts.md).

    A dimension of variance 0 has no y: under ``paper`` it is 0, so its logits are 0, its loss is log D, and it gets no
    gradient from the term; under ``reference`` the 1e-5 keeps it finite. It works without contrast too
    (``negatives = []``, Table 4, there with a temperature of .05).

    The log has ``dcl_rank``, the rank of the (D, D) matrix s, at most min(N - 1, D) because the mean is subtracted.

    `opencse.objective.losses.dcl` is the loss as a function of two tensors.

    Example:
        >>> import torch
        >>> views = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
        >>> DCL(DCL.Settings(temperature=2.0)).loss(Representations.of(views, views))
        tensor(0.4028)
    """

    recordable = True

    class Settings(PartSettings):
        """Settings of `DCL`.

        Attributes:
            temperature: tau_DCL of eq. 5.
            weight: lambda of eq. 6.
            scaling: ``paper`` or ``reference``.
        """

        kind: Literal["dcl"] = "dcl"
        weight: float = Field(default=0.1, gt=0, allow_inf_nan=False)
        temperature: float = Field(default=5.0, gt=0, allow_inf_nan=False)
        scaling: Literal["paper", "reference"] = "paper"

    settings: Settings

    def loss(self, reps: Representations) -> Tensor:
        """`losses.dcl` of the two views.

        Raises:
            UserError: for a batch of one example.
        """
        if len(reps.anchor) < 2:
            raise UserError("the dcl term compares examples and a batch holds one alone; set training.batch_size")
        settings = self.settings
        return dcl(reps.anchor, reps.positive, temperature=settings.temperature, scaling=settings.scaling)

    def diagnose(self, reps: Representations) -> dict[str, Tensor]:
        """``dcl_rank``: the rank of s."""
        return {"dcl_rank": dcl_rank(reps.anchor, reps.positive, scaling=self.settings.scaling)}
