"""The view of SimCSE: the same sentence twice, under two dropout masks."""

from __future__ import annotations

from typing import Literal

from opencse.errors import UserError
from opencse.objective.context import Context
from opencse.objective.views.base import SentenceView
from opencse.settings import PartSettings


class Dropout(SentenceView):
    """The same tokens twice, with different dropout masks (SimCSE, eq. 4).

    Both copies go through one forward pass of 2N rows; dropout draws every element separately, so
    the masks of the two copies are independent. ``shared_mask = true`` runs the two copies one after the other under
    the same masks ("fixed 0.1" of Table 3, published as harmful: 43.6 on STS-B dev).

    Example:
        >>> from opencse.objective.negatives.in_batch import InBatch
        >>> from opencse.objective.objective import Objective
        >>> objective = Objective(Dropout(), negatives=[InBatch()])  # the objective of SimCSE
        >>> objective.negatives_per_anchor(batch_size=64, hard=0)
        63
    """

    class Settings(PartSettings):
        """Settings of `Dropout`; the rate itself is the encoder's (``encoder.dropout``)."""

        kind: Literal["dropout"] = "dropout"
        shared_mask: bool = False

    settings: Settings

    @property
    def shared_mask(self) -> bool:
        """Whether its settings say so."""
        return self.settings.shared_mask

    def check(self, context: Context) -> None:
        """Refuses an encoder without dropout, under which both views of a sentence would be equal."""
        super().check(context)
        encoder = context.encoder
        if encoder is None or encoder.has_dropout or not context.own_dropout or not context.objective.negatives:
            return
        raise UserError(
            f"{context.model}: this backbone has no dropout, so both views of a sentence would be equal; "
            "set it with --set encoder.dropout=0.1 (or 0, to train on equal views all the same)"
        )
