"""SNCSE's term: the negation of a text is less similar than its positive, but not much less."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.objective.losses import bidirectional_margin
from opencse.objective.terms.base import Term
from opencse.objective.vectors.requests import Sentences
from opencse.objective.vectors.rewritten import Rewritten, add_template
from opencse.objective.vectors.step import Representations, Request
from opencse.objective.views.templates import valid_template
from opencse.settings import PartSettings


class BidirectionalMargin(Term):
    """`losses.bidirectional_margin` of the views and of the anchors' negations (SNCSE).

    The negation is made by rule of the anchor's text as the encoder reads it, so a text that is truncated is negated
    after that, as the tokenizer spells it; see `opencse.text.negation` for the rules and where they differ from SNCSE.

    Example:
        >>> import torch
        >>> term = BidirectionalMargin()
        >>> views, negations = torch.eye(2), torch.eye(2).flip(0)
        >>> term.loss(Representations(views, views, views[:, None][:, :0], views, {term.request: negations}))
        tensor(0.7000)
    """

    compares_examples = False

    class Settings(PartSettings):
        """Settings of `BidirectionalMargin`.

        Attributes:
            weight: lambda; SNCSE's code has 1e-3 for BERT, 5e-4 for RoBERTa.
            alpha: smallest difference of similarities that costs nothing.
            beta: largest difference that costs nothing.
            template: that negations are put into; unset keeps the encoder's.
        """

        kind: Literal["bidirectional_margin"] = "bidirectional_margin"
        weight: float = Field(default=1e-3, gt=0, allow_inf_nan=False)
        alpha: float = Field(default=0.1, ge=0, le=2)
        beta: float = Field(default=0.3, ge=0, le=2)
        template: str | None = None

        @field_validator("template")
        @classmethod
        def _has_a_slot(cls, value: str | None) -> str | None:
            return None if value is None else valid_template(value)

        @model_validator(mode="after")
        def _margins_are_in_order(self) -> BidirectionalMargin.Settings:
            if self.alpha > self.beta:
                raise ValueError("alpha is the smaller margin, beta the larger one")
            return self

    settings: Settings

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self._max_length: int | None = None

    @property
    def request(self) -> Rewritten:
        """The vectors of the negations."""
        return Rewritten("negated", self.settings.template, "bidirectional_margin term", self._max_length)

    @property
    def reads(self) -> Set[Request[Any]]:
        """The views, and the negations."""
        return {Sentences(), self.request}

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Reads the encoder's limit, and registers the template where templates' vectors are subtracted."""
        del batch_size, seed
        self._max_length = encoder.max_length
        add_template(encoder, self.settings.template)

    def loss(self, reps: Representations) -> Tensor:
        """The unweighted term."""
        settings = self.settings
        return bidirectional_margin(
            reps.anchor, reps.positive, reps[self.request], alpha=settings.alpha, beta=settings.beta
        )
