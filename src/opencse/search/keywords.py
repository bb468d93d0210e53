"""Search by words: BM25, through bm25s."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opencse.search.exact import Places
from opencse.text.scripts import search_words


class Keywords:
    """The words of some texts, ranked by BM25 (Robertson and Zaragoza 2009) as Lucene does: k1 1.5, b 0.75.

    Words are runs of letters and digits, in lower case; none is left out and none is stemmed, so that this serves any
    language. Of Chinese, Japanese, Thai and others without spaces all neighbouring pairs of characters are words.

    Args:
        inner: bm25s's index of m texts; None: they have no words at all.
        size: m.
    """

    def __init__(self, inner: Any, size: int) -> None:  # noqa: ANN401 - bm25s is untyped
        self._inner, self.size = inner, size

    @classmethod
    def of(cls, texts: Sequence[str]) -> Keywords:
        """The words of ``texts``."""
        words = [search_words(text) for text in texts]
        if not any(words):
            return cls(None, len(texts))
        import bm25s

        inner = bm25s.BM25(method="lucene")
        inner.index(words, show_progress=False)
        return cls(inner, len(texts))

    @classmethod
    def read(cls, folder: Path) -> Keywords:
        """What `save` wrote; the scores stay on the disk until they are read.

        Raises:
            ValueError, OSError, LookupError, TypeError: if it is damaged.
        """
        import bm25s

        inner = bm25s.BM25.load(folder, mmap=True)
        scores = inner.scores
        entries, ends = len(scores["indices"]), scores["indptr"]
        if len(scores["data"]) != entries or len(ends) <= max(inner.vocab_dict.values()) or int(ends[-1]) != entries:
            raise ValueError("its parts do not belong together")
        return cls(inner, int(scores["num_docs"]))

    def save(self, folder: Path) -> None:
        """Writes them, by bm25s's own means; texts must have words."""
        self._inner.save(folder, show_progress=False)

    @property
    def empty(self) -> bool:
        """Whether the texts have no words at all."""
        return self._inner is None

    def scores(self, query: str) -> NDArray[np.float64]:
        """(m,) what each text shares with a query; 0 for those that share no word with it."""
        known = [] if self._inner is None else [word for word in search_words(query) if word in self._inner.vocab_dict]
        if not known:
            return np.zeros(self.size)
        return np.asarray(self._inner.get_scores(known), dtype=np.float64)


def best_rows(scores: NDArray[np.float64], most: int) -> Places:
    """The rows of the highest scores above 0, the best first and equal ones in their order."""
    rows = np.flatnonzero(scores > 0)
    if len(rows) > most:
        least = np.partition(scores[rows], -most)[-most]
        rows = rows[scores[rows] >= least]
    return rows[np.lexsort((rows, -scores[rows]))][:most]
