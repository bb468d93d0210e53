"""Masked language modelling as an extra loss."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Literal

from pydantic import Field
from torch import Tensor

from opencse.objective.terms.base import Term
from opencse.objective.vectors.requests import LmHead, Masked
from opencse.objective.vectors.step import Representations, Request
from opencse.settings import PartSettings


class MaskedLM(Term):
    """Masked-language-model loss in addition to contrast (SimCSE, section 4 and Table D.2): ``loss + weight * mlm``.

    ``rate`` of the real tokens (never special ones) are chosen in a copy of the anchors and positives; of those
    80% become [MASK], 10% a random ordinary id, 10% stay. The contrastive input itself is not masked, unless
    ``masked_contrast`` (an early version of the authors' code, and DeCLUTR's, where one forward pass gives both; here
    the masked copy goes through twice, under two dropout masks). The backbone's own head predicts, over the chosen
    positions only. SimCSE's code also masks the hard negatives, its random ids may be special ones, and its decoder is
    a copy of the token embeddings that is trained separately (``tied = false``).

    `opencse.objective.losses.masked_lm` is the loss at each position as a function of tensors.

    Example:
        >>> import torch
        >>> from dataclasses import replace
        >>> reps = Representations.of(torch.eye(2), torch.eye(2))
        >>> reps = replace(reps, answers={Masked(0.15): torch.tensor([1.0, 3.0])})  # of two hidden tokens
        >>> MaskedLM().loss(reps)
        tensor(2.)
    """

    class Settings(PartSettings):
        """Settings of `MaskedLM`.

        Attributes:
            weight: of the term.
            rate: share of the tokens that are chosen.
            tied: whether the head's decoder shares the token embeddings, where the model's configuration says so; false
                gives it a separate copy.
            texts: of both views (SimCSE), or the anchors' alone (DeCLUTR).
            masked_contrast: whether the vectors are of the masked texts too.
        """

        kind: Literal["mlm"] = "mlm"
        weight: float = Field(default=0.1, gt=0, allow_inf_nan=False)
        rate: float = Field(default=0.15, gt=0, lt=1)
        tied: bool = True
        texts: Literal["views", "anchors"] = "views"
        masked_contrast: bool = False

    settings: Settings
    compares_examples = False

    @property
    def reads(self) -> Set[Request[Any]]:
        """The losses of a masked copy, and the head that predicts."""
        return {self._masked, LmHead(tied=self.settings.tied)}

    def loss(self, reps: Representations) -> Tensor:
        """Mean cross-entropy over the chosen positions; 0 where none was chosen."""
        losses = reps[self._masked]
        return losses.mean() if len(losses) else losses.sum()

    @property
    def _masked(self) -> Masked:
        settings = self.settings
        return Masked(settings.rate, settings.texts, settings.masked_contrast)
