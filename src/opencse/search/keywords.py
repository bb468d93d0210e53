"""Search by words: BM25, through bm25s."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError
from opencse.search.exact import Places

if TYPE_CHECKING:
    from types import ModuleType


def require_bm25s() -> ModuleType:
    """bm25s, imported.

    Raises:
        UserError: where it is not installed.
    """
    try:
        import bm25s
    except ImportError:
        raise UserError('bm25s is not installed; pip install "opencse[serve]", or search without hybrid') from None
    module: ModuleType = bm25s
    return module


class Keywords:
    """The words of some texts, ranked by BM25 (Robertson and Zaragoza 2009) as Lucene does: k1 1.5, b 0.75.

    Words are runs of letters and digits, in lower case; none is left out and none is stemmed, so that this serves any
    language that puts spaces between words.

    Args:
        texts: m texts.
        places: (m,) what they are called in what is found.
    """

    def __init__(self, texts: Sequence[str], places: Places) -> None:
        bm25s = require_bm25s()
        self._places = places
        self._tokens: Any = lambda given: bm25s.tokenize(
            given, token_pattern=r"(?u)\b\w+\b", stopwords=None, show_progress=False, return_ids=False
        )
        self._inner: Any = None
        words = self._tokens(list(texts))
        if any(words):  # else there is nothing to find
            self._inner = bm25s.BM25(method="lucene")
            self._inner.index(words, show_progress=False)

    def search(self, query: str, most: int, among: NDArray[np.bool_] | None = None) -> list[int]:
        """The places of the texts that share most with a query, the best first and equal ones in their order.

        Args:
            query: words.
            most: how many; texts that share no word with the query are none of them.
            among: (m,) which texts may be found.
        """
        (words,) = self._tokens([query])
        known = [] if self._inner is None else [word for word in words if word in self._inner.vocab_dict]
        if not known:
            return []
        scores = np.asarray(self._inner.get_scores(known), dtype=np.float64)
        allowed = scores > 0 if among is None else (scores > 0) & among
        rows = np.flatnonzero(allowed)
        best = rows[np.lexsort((rows, -scores[rows]))][:most]
        return [int(place) for place in self._places[best]]
