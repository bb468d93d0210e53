"""What views of single sentences share."""

from __future__ import annotations

import numpy as np

from opencse.arrays import Integers
from opencse.errors import UserError
from opencse.objective.views.base import View, cells
from opencse.text.corpus import Corpus


class SentenceView(View):
    """Every sentence with itself."""

    def examples(self, corpus: Corpus, random: np.random.Generator) -> Integers:
        """(M, 2, 2): each row twice.

        Raises:
            UserError: if the rows hold more than one text.
        """
        del random
        if corpus.width != 1:
            raise UserError(
                f"{corpus.facts.source}: the {self.kind} view reads one text a row, not {corpus.width}; "
                "name one column with --columns, or use a recipe for pairs (simcse-supervised)"
            )
        return cells(np.arange(len(corpus), dtype=np.int64), [0, 0])
