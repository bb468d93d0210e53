"""Keyword search with BM25 (through bm25s), and the cache of it in the folder of an index.

The cache is a folder ``words-DATABASE-VERSION-COUNTING-LANGUAGE`` in the format of bm25s, written by the first hybrid
search of that version of the index. Its name says what it holds: after a change of the index, of the tokenisation, of
the language or of the stemmer another name is used, so an outdated cache is never read, and the next writer deletes it.
A cache that is damaged, or has another number of rows than the index, is replaced.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from opencse.arrays import Floats, Integers
from opencse.files import moving_in, remove
from opencse.search.stems import Stems, keyword_package, rules_version, stems_of
from opencse.text.scripts import search_words

_PREFIX = "words-"
_COUNTING = 8
"""Version of the tokenisation (`terms_of`), part of the name of the cache."""


def terms_of(text: str, stems: Stems) -> list[str]:
    """The stems by which a text is found: of its words, and of words with accents also without these.

    So ``cafe`` finds ``café``, and ``café`` finds first what is written so.

    Example:
        >>> terms_of("Café Zoë", stems_of(None))
        ['café', 'zoë', 'cafe', 'zoe']
    """
    words = search_words(text)
    plain = ((word, _without_accents(word)) for word in words if not word.isascii())
    return stems([*words, *(bare for word, bare in plain if bare != word)])


def _without_accents(word: str) -> str:
    letters = (one for one in unicodedata.normalize("NFD", word) if not "\u0300" <= one <= "\u036f")
    return unicodedata.normalize("NFC", "".join(letters))


class KeywordIndex:
    """Ranks texts by BM25 (Robertson and Zaragoza 2009) as Lucene does: k1 1.5, b 0.75.

    Words of texts and queries are found by `terms_of`, reduced to their stems by Snowball's rules where the language is
    known; there are no stop words.

    Example:
        >>> index = KeywordIndex.of(["A cat sleeps.", "Two cats and a dog.", "Rain falls."], "english")
        >>> index.scores("the cats").round(2).tolist()
        [0.2, 0.15, 0.0]

    Args:
        inner: bm25s's index of m texts; None: they have no words at all.
        size: m.
        language: whose stems the words were reduced to; None: no stemming.
    """

    def __init__(self, inner: Any, size: int, language: str | None = None) -> None:  # noqa: ANN401 - bm25s is untyped
        self._inner, self.size, self.language = inner, size, language
        self._stems = stems_of(language)

    @classmethod
    def of(cls, texts: Sequence[str], language: str | None = None) -> KeywordIndex:
        """Counts the words of ``texts``."""
        stems = stems_of(language)
        words = [terms_of(text, stems) for text in texts]
        if not any(words):
            return cls(None, len(texts), language)
        inner = keyword_package().BM25(method="lucene")
        inner.index(words, show_progress=False)
        return cls(inner, len(texts), language)

    @classmethod
    def read(cls, folder: Path, language: str | None = None) -> KeywordIndex:
        """Opens what `save` wrote; the scores are memory-mapped.

        Raises:
            ValueError, OSError, LookupError, TypeError: if it is damaged.
        """
        inner = keyword_package().BM25.load(folder, mmap=True)
        scores = inner.scores
        entries, ends = len(scores["indices"]), scores["indptr"]
        # bm25s does not look whether the files that it maps fit together.
        if len(scores["data"]) != entries or len(ends) <= max(inner.vocab_dict.values()) or int(ends[-1]) != entries:
            raise ValueError("the files of the keyword index do not belong together")
        return cls(inner, int(scores["num_docs"]), language)

    def save(self, folder: Path) -> None:
        """Writes the index in bm25s's format; at least one text must have words."""
        self._inner.save(folder, show_progress=False)

    @property
    def empty(self) -> bool:
        """Whether the texts have no words at all."""
        return self._inner is None

    def covered(self, query: str) -> Floats:
        r"""(m,) share of a query's words that each text has, by their rarity; a word that no text has counts most.

        .. math:: \frac{\sum_{t \in q \cap d} \text{idf}(t)}{\sum_{t \in q} \text{idf}(t)}, \qquad
                  \text{idf}(t) = \ln\Big(1 + \frac{m - n_t + 0.5}{n_t + 0.5}\Big)

        with n_t the number of texts that have t, and each word of q once.

        Example:
            >>> index = KeywordIndex.of(["a cat sleeps", "a dog", "rain"])
            >>> index.covered("a cat and a mouse").round(2).tolist()
            [0.26, 0.08, 0.0]
        """
        found, total = np.zeros(self.size), 0.0
        for word in dict.fromkeys(terms_of(query, self._stems)):
            rows = self._rows_with(word)
            idf = float(np.log1p((self.size - len(rows) + 0.5) / (len(rows) + 0.5)))
            found[rows] += idf
            total += idf
        return found / (total or 1.0)

    def _rows_with(self, word: str) -> Integers:
        """The texts that have a word, given by its stem."""
        number = None if self._inner is None else self._inner.vocab_dict.get(word)
        if number is None:
            return np.empty(0, dtype=np.int64)
        begin, end = self._inner.scores["indptr"][number : number + 2]
        return np.asarray(self._inner.scores["indices"][begin:end])

    def scores(self, query: str) -> Floats:
        """BM25 score (m,) of each text for a query; 0 for texts that share no word with it."""
        words = [] if self._inner is None else terms_of(query, self._stems)
        known = [word for word in words if word in self._inner.vocab_dict]
        if not known:
            return np.zeros(self.size)
        return np.asarray(self._inner.get_scores(known), dtype=np.float64)


def best_rows(scores: Floats, most: int) -> Integers:
    """Row numbers of at most ``most`` highest scores above 0, best first, ties in row order.

    Example:
        >>> best_rows(np.array([0.0, 2.0, 1.0, 2.0]), 2).tolist()
        [1, 3]
    """
    rows = np.flatnonzero(scores > 0)
    if len(rows) > most:
        least = np.partition(scores[rows], -most)[-most]
        rows = rows[scores[rows] >= least]  # with all that tie at the last rank: their order is decided below
    return rows[np.lexsort((rows, -scores[rows]))][:most]


def cache_name(database: str, version: int, language: str | None) -> str:
    """Name of the cache folder for one version of an index.

    Args:
        database: file name of the index's database.
        version: number of changes of the index.
        language: whose stems are compared; None: no stemming.
    """
    stems = "words" if language is None else f"{language}_{rules_version().replace('.', '_')}"
    return f"{_PREFIX}{database.removeprefix('rows-').removesuffix('.sqlite')}-{version}-{_COUNTING}-{stems}"


def cached_keyword_index(
    folder: Path, name: str, count: int, texts: Callable[[], Sequence[str]], language: str | None
) -> KeywordIndex:
    """Opens the cached keyword index; counts the words and caches them where there is none.

    Args:
        folder: the folder of the index; where it cannot be written, nothing is cached.
        name: from `cache_name`.
        count: number of rows of the index.
        texts: reads the texts of all rows, in their order.
        language: whose stems are compared; None: no stemming.
    """
    with suppress(ValueError, OSError, LookupError, TypeError):
        cached = KeywordIndex.read(folder / name, language)
        if cached.size == count:
            return cached
    counted = KeywordIndex.of(texts(), language)
    if not counted.empty and os.access(folder, os.W_OK):
        with suppress(OSError), moving_in(folder / name) as unfinished:  # where the disk is full, nothing is written
            counted.save(unfinished)
        for other in folder.glob(f"{'-'.join(name.split('-')[:2])}-*"):  # of earlier versions of this index
            if other.name != name:
                remove(other)
    return counted
