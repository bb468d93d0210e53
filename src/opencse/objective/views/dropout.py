"""The same sentence twice."""

from __future__ import annotations

from typing import Literal

from opencse.objective.representations import Needs
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

    needs_dropout = True

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.needs = Needs(shared_mask=settings.shared_mask)
