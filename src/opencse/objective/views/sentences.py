"""What views of single sentences share."""

from __future__ import annotations

import numpy as np

from opencse.errors import UserError
from opencse.objective.views.base import Places, places
from opencse.text.corpus import Corpus


def with_itself(corpus: Corpus, kind: str) -> Places:
    """Every sentence with itself.

    Args:
        corpus: the text.
        kind: of the view, for the message.

    Raises:
        UserError: if the rows hold more than one text.
    """
    if corpus.width != 1:
        raise UserError(
            f"{corpus.facts.source}: the {kind} view reads one text a row, not {corpus.width}; "
            "name one column with --columns, or use a recipe for pairs (simcse-supervised)"
        )
    return places(np.arange(len(corpus), dtype=np.int64), [0, 0])
