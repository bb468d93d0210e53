"""The same sentence twice."""

from __future__ import annotations

from typing import Literal

import numpy as np

from opencse.errors import UserError
from opencse.objective.representations import Needs
from opencse.objective.views.base import Places, View, places
from opencse.settings import PartSettings
from opencse.text.corpus import Corpus


class Dropout(View):
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
        super().__init__()
        self.needs = Needs(shared_mask=settings.shared_mask)

    def examples(self, corpus: Corpus, random: np.random.Generator) -> Places:
        """Every sentence with itself."""
        del random
        if corpus.width != 1:
            raise UserError(
                f"{corpus.facts.source}: the dropout view reads one text a row, not {corpus.width}; "
                "name one column with --columns, or use a recipe for pairs (simcse-supervised)"
            )
        return places(np.arange(len(corpus), dtype=np.int64), [0, 0])
