"""Search by words: BM25, through bm25s."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opencse.arrays import Integers
from opencse.text.scripts import search_words
from opencse.text.stems import stems_of


class Keywords:
    """The words of some texts, ranked by BM25 (Robertson and Zaragoza 2009) as Lucene does: k1 1.5, b 0.75.

    Words are runs of letters and digits in one form (`opencse.text.scripts.folded`), reduced to their stems by
    Snowball's rules where the language is known; none is left out. Of Chinese, Japanese, Thai and others without spaces
    all neighbouring pairs of characters are words. Texts and queries go through the same function.

    Args:
        inner: bm25s's index of m texts; None: they have no words at all.
        size: m.
        language: whose stems the words were reduced to; None: they are as they are.
    """

    def __init__(self, inner: Any, size: int, language: str | None = None) -> None:  # noqa: ANN401 - bm25s is untyped
        self._inner, self.size = inner, size
        self._stems = stems_of(language)

    @classmethod
    def of(cls, texts: Sequence[str], language: str | None = None) -> Keywords:
        """The words of ``texts``."""
        stems = stems_of(language)
        words = [stems(search_words(text)) for text in texts]
        if not any(words):
            return cls(None, len(texts), language)
        import bm25s

        inner = bm25s.BM25(method="lucene")
        inner.index(words, show_progress=False)
        return cls(inner, len(texts), language)

    @classmethod
    def read(cls, folder: Path, language: str | None = None) -> Keywords:
        """What `save` wrote of words of that language; the scores stay on the disk until they are read.

        Raises:
            ValueError, OSError, LookupError, TypeError: if it is damaged.
        """
        import bm25s

        inner = bm25s.BM25.load(folder, mmap=True)
        scores = inner.scores
        entries, ends = len(scores["indices"]), scores["indptr"]
        if len(scores["data"]) != entries or len(ends) <= max(inner.vocab_dict.values()) or int(ends[-1]) != entries:
            raise ValueError("its parts do not belong together")
        return cls(inner, int(scores["num_docs"]), language)

    def save(self, folder: Path) -> None:
        """Writes them, by bm25s's own means; texts must have words."""
        self._inner.save(folder, show_progress=False)

    @property
    def empty(self) -> bool:
        """Whether the texts have no words at all."""
        return self._inner is None

    def scores(self, query: str) -> NDArray[np.float64]:
        """(m,) what each text shares with a query; 0 for those that share no word with it."""
        words = [] if self._inner is None else self._stems(search_words(query))
        known = [word for word in words if word in self._inner.vocab_dict]
        if not known:
            return np.zeros(self.size)
        return np.asarray(self._inner.get_scores(known), dtype=np.float64)


def best_rows(scores: NDArray[np.float64], most: int) -> Integers:
    """The rows of the highest scores above 0, the best first and equal ones in their order."""
    rows = np.flatnonzero(scores > 0)
    if len(rows) > most:
        least = np.partition(scores[rows], -most)[-most]
        rows = rows[scores[rows] >= least]
    return rows[np.lexsort((rows, -scores[rows]))][:most]
