"""A view of pairs: the positive is given by the data."""

from __future__ import annotations

from typing import Literal

import numpy as np

from opencse.arrays import Integers
from opencse.errors import UserError
from opencse.objective.views.base import View, cells
from opencse.settings import PartSettings
from opencse.text.corpus import Corpus


class Pair(View):
    """The positive given by the data: column 2 (SimCSE, eq. 5); a third column is the hard negative.

    Example:
        >>> from opencse.objective.negatives.hard import Hard
        >>> from opencse.objective.negatives.in_batch import InBatch
        >>> from opencse.objective.objective import Objective
        >>> objective = Objective(Pair(), negatives=[InBatch(), Hard()])  # the objective of supervised SimCSE
        >>> objective.negatives_per_anchor(batch_size=64, hard=1)
        127
    """

    recordable = True

    class Settings(PartSettings):
        """Settings of `Pair`."""

        kind: Literal["pair"] = "pair"

    def require_width(self, width: int, source: str) -> None:
        """Refuses rows of one text."""
        if width < 2:
            raise UserError(
                f"{source}: the pair view needs two or three texts per row, not {width}: anchor, positive and perhaps "
                "a hard negative; name them with --columns, or use a recipe for plain sentences (simcse, next-sentence)"
            )

    def examples(self, corpus: Corpus, random: np.random.Generator) -> Integers:
        """Every row with its own columns."""
        del random
        self.require_width(corpus.width, corpus.facts.source)
        return cells(np.arange(len(corpus), dtype=np.int64), range(corpus.width))
