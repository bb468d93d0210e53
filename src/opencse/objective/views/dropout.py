"""The view of SimCSE: the same sentence twice, under two dropout masks."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from opencse.errors import UserError
from opencse.model_folder.backbone import dropout_rates
from opencse.objective.context import Context
from opencse.objective.vectors.represent import Passes
from opencse.objective.vectors.step import Representations
from opencse.objective.views.base import SentenceView
from opencse.settings import PartSettings

Rate = Annotated[float, Field(ge=0, lt=1)]


class Dropout(SentenceView):
    """The same tokens twice, with different dropout masks (SimCSE, eq. 4).

    Both copies go through one forward pass of 2N rows; dropout draws every element separately, so
    the masks of the two copies are independent. ``shared_mask = true`` runs the two copies one after the other under
    the same masks ("fixed 0.1" of Table 3, published as harmful: 43.6 on STS-B dev). ``rates`` gives each view a rate
    of its own, in two forward passes (SCD: .05 and .155).

    Example:
        >>> from opencse.objective.negatives.in_batch import InBatch
        >>> from opencse.objective.objective import Objective
        >>> objective = Objective(Dropout(), negatives=[InBatch()])  # the objective of SimCSE
        >>> objective.negatives_per_anchor(batch_size=64, hard=0)
        63
    """

    class Settings(PartSettings):
        """Settings of `Dropout`.

        Attributes:
            shared_mask: whether both views have the same dropout masks.
            rates: the dropout rates of anchors and positives, hidden states and attention; unset uses the encoder's
                (``encoder.dropout``) for both.
        """

        kind: Literal["dropout"] = "dropout"
        shared_mask: bool = False
        rates: tuple[Rate, Rate] | None = None

        @model_validator(mode="after")
        def _masks_of_one_rate(self) -> Self:
            if self.shared_mask and self.rates is not None:
                raise ValueError("shared_mask needs one rate for both views; leave rates out")
            return self

    settings: Settings
    recordable = True

    @property
    def two_passes(self) -> str:
        """``shared_mask`` or ``rates``, if set."""
        return "shared_mask" if self.settings.shared_mask else "rates" if self.settings.rates else ""

    def represent(self, passes: Passes) -> Representations:
        """Makes one forward pass, or one of each view under the masks or the rates of the settings."""
        return passes.forward(shared_mask=self.settings.shared_mask, dropout=self.settings.rates)

    def check(self, context: Context) -> None:
        """Refuses an encoder without dropout, under which both views of a sentence would be equal."""
        super().check(context)
        encoder = context.encoder
        if encoder is not None and self.settings.rates is not None and not dropout_rates(encoder.backbone.config):
            raise UserError(f"{context.model}: this backbone has no dropout; leave objective.view.rates out")
        if self.settings.rates is not None and context.objective.dual_encoder:
            raise UserError("objective.view.rates are of one encoder; set objective.dual_encoder to false")
        if self.settings.rates is not None and any(self.settings.rates):
            return
        if encoder is None or encoder.has_dropout or not context.own_dropout or not context.objective.negatives:
            return
        raise UserError(
            f"{context.model}: this backbone has no dropout, so both views of a sentence would be equal; "
            "set it with --set encoder.dropout=0.1 (or 0, to train on equal views all the same)"
        )
