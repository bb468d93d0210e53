"""The positive that the data gives."""

from __future__ import annotations

from typing import Literal

import numpy as np

from opencse.arrays import Integers
from opencse.errors import UserError
from opencse.objective.views.base import View, cells
from opencse.settings import PartSettings
from opencse.text.corpus import Corpus


class Pair(View):
    """The positive given by the data: column 2 (SimCSE, eq. 5); a third column is the hard negative."""

    class Settings(PartSettings):
        """Settings of `Pair`."""

        kind: Literal["pair"] = "pair"

    def examples(self, corpus: Corpus, random: np.random.Generator) -> Integers:
        """Every row with its own columns."""
        del random
        if corpus.width < 2:
            raise UserError(
                f"{corpus.facts.source}: the pair view needs two or three texts a row (anchor, positive[, negative]); "
                "name them with --columns, or use a recipe for plain sentences (simcse, next-sentence)"
            )
        return cells(np.arange(len(corpus), dtype=np.int64), range(corpus.width))
