"""Imitates given margins of positives above hard negatives."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from opencse.errors import UserError
from opencse.objective.context import Context
from opencse.objective.losses.distillation import margin_mse, score_kl
from opencse.objective.losses.similarity import SimilarityKind, rowwise_similarity
from opencse.objective.terms.base import Term
from opencse.objective.vectors.requests import HardNegatives, Sentences
from opencse.objective.vectors.row_labels import Margins
from opencse.objective.vectors.step import Representations, Request
from opencse.settings import PartSettings


class Margin(Term):
    """Lets the margin of positive above hard negative follow the one in the data, as a stronger model has it.

    Each row has an anchor, a positive, a hard negative, and by how much the stronger model, mostly a cross-encoder,
    scores the positive above the negative. ``loss = "mse"`` is `losses.margin_mse` (Hofstaetter et al. 2021,
    arXiv:2010.02666; GPL, Wang et al. 2022), ``"kl"`` is `losses.score_kl`. The divergence of two scores is a function
    of their margin, so both read the same data. ``factor`` multiplies the encoder's similarities: cosines do not reach
    the margins of most cross-encoders.

    The log has ``margin_gap``, the mean absolute difference of the margins.

    Example:
        >>> from dataclasses import replace
        >>> reps = Representations.of(torch.eye(1), 2 * torch.eye(1), torch.zeros(1, 1, 1))
        >>> Margin().loss(replace(reps, answers={Margins(): torch.tensor([3.0])}))  # (2 - 0 - 3)^2
        tensor(1.)
    """

    class Settings(PartSettings):
        """Settings of `Margin`.

        Attributes:
            weight: of the term.
            loss: ``mse`` or ``kl``.
            similarity: of two vectors.
            factor: multiplies the similarities.
            temperature: of ``kl``.
        """

        kind: Literal["margin"] = "margin"
        weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
        loss: Literal["mse", "kl"] = "mse"
        similarity: SimilarityKind = "dot"
        factor: float = Field(default=1.0, gt=0, allow_inf_nan=False)
        temperature: float = Field(default=1.0, gt=0, allow_inf_nan=False)

    settings: Settings
    compares_examples = False

    @property
    def reads(self) -> Set[Request[Any]]:
        """The vectors of the pairs and of the hard negatives, and the margins."""
        return {Sentences(), HardNegatives(), Margins()}

    def check(self, context: Context) -> None:
        """Refuses rows with another number of hard negatives than one: a row has one margin."""
        if context.hard is not None and context.hard != 1:
            raise UserError(
                f"{context.source}: the {self.kind} term needs one hard negative in each row, and its rows hold "
                f"{context.hard}; name three columns of texts and that of the margin last: "
                "--columns query,positive,negative,margin"
            )

    def loss(self, reps: Representations) -> Tensor:
        """The loss of the settings."""
        positive, negative, margins = self._similarities(reps)
        if self.settings.loss == "mse":
            return margin_mse(positive, negative.unsqueeze(1), margins.unsqueeze(1))
        student = torch.stack([positive, negative], dim=1)
        teacher = torch.stack([margins, torch.zeros_like(margins)], dim=1)
        return score_kl(student, teacher, temperature=self.settings.temperature)

    def diagnose(self, reps: Representations) -> dict[str, Tensor]:
        """``margin_gap``."""
        positive, negative, margins = self._similarities(reps)
        return {"margin_gap": (positive - negative - margins).abs().mean()}

    def _similarities(self, reps: Representations) -> tuple[Tensor, Tensor, Tensor]:
        """(N,) each: of anchor and positive, of anchor and hard negative; and the margins."""
        settings = self.settings
        positive, negative = (
            settings.factor * rowwise_similarity(reps.anchor, other, settings.similarity)
            for other in (reps.positive, reps.hard[:, 0])
        )
        return positive, negative, reps[Margins()].to(positive)
