"""What every view is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from opencse.text.corpus import Corpus
from opencse.text.tokenizer import Ids

Places = NDArray[np.int64]


class View(ABC):
    """How the positive of an anchor is made.

    A view first says where an example's texts are in the corpus, then may change the positives' tokens.
    """

    needs_dropout = False
    """Whether the two views of a sentence differ by dropout alone (they would be equal without it)."""

    @abstractmethod
    def examples(self, corpus: Corpus, random: np.random.Generator) -> Places:
        """The examples a corpus yields.

        Args:
            corpus: the text.
            random: for views that draw which texts make an example; used once, when a run starts.

        Returns:
            (M, 2 + H, 2): for anchor, positive and each hard negative the (row, column) of its text.

        Raises:
            UserError: if the corpus is not of the kind this view needs.
        """

    def positives(self, tokens: Sequence[Ids], random: np.random.Generator) -> Sequence[Ids]:
        """The positives' ids, drawn anew each step; unchanged by default."""
        del random
        return tokens


def places(rows: NDArray[np.int64], columns: Sequence[int]) -> Places:
    """(M, len(columns), 2): the given columns of the given rows."""
    grid = np.empty((len(rows), len(columns), 2), dtype=np.int64)
    grid[:, :, 0] = rows[:, None]
    grid[:, :, 1] = np.asarray(columns)
    return grid
