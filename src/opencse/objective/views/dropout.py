"""The same sentence twice."""

from __future__ import annotations

from typing import Literal

from opencse.errors import UserError
from opencse.objective.context import Context
from opencse.objective.views.sentences import SentenceView
from opencse.settings import PartSettings


class Dropout(SentenceView):
    """The same tokens twice, told apart by dropout alone (SimCSE, eq. 4).

    Both copies go through one forward of 2N rows; dropout draws every element on its own, so the
    masks of the two copies are independent. ``shared_mask = true`` runs the two copies one after the other under
    the very same masks ("fixed 0.1" of Table 3, published as harmful: 43.6 on STS-B dev).
    """

    class Settings(PartSettings):
        """Settings of `Dropout`; the rate itself is the encoder's (``encoder.dropout``)."""

        kind: Literal["dropout"] = "dropout"
        shared_mask: bool = False

    settings: Settings

    @property
    def shared_mask(self) -> bool:
        """As its settings say."""
        return self.settings.shared_mask

    def check(self, context: Context) -> None:
        """Without dropout both views of a sentence would be equal."""
        super().check(context)
        encoder = context.encoder
        if encoder is None or encoder.has_dropout or not context.own_dropout or not context.objective.negatives:
            return
        raise UserError(
            f"{context.model}: this backbone has no dropout, so both views of a sentence would be equal; "
            "set it with --set encoder.dropout=0.1 (or 0, to train on equal views all the same)"
        )
