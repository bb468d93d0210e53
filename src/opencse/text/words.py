"""Finds the words of a tokenised text; lists English function words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opencse.text.tokenizer import WordNumbers


@dataclass(frozen=True)
class Words:
    """The positions of the n words of a text among its ids; each word is a run of ids.

    Attributes:
        index: (length,) which word (0 ... n - 1) each id is of, -1 for the special tokens.
        starts: (n,) position of each word's first id.
        ends: (n,) one past the position of its last id.
    """

    index: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """(n,) ids of each word."""
        return self.ends - self.starts

    def ids_of(self, words: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(length,) whether an id is of one of ``words``."""
        is_chosen = np.zeros(len(self) + 1, dtype=bool)  # the last one is what special tokens (-1) look up
        is_chosen[words] = True
        return is_chosen[self.index]


def find_words(numbers: WordNumbers) -> Words:
    """Finds words from the numbers of `TokenisedText`; numbers may be missing (a text that was truncated on the left).

    >>> words = find_words(np.array([-1, 0, 0, 1, -1], dtype=np.int16))
    >>> words.starts.tolist(), words.sizes.tolist()
    ([1, 3], [2, 1])
    """
    inside = numbers >= 0
    first, last = inside.copy(), inside.copy()
    change = numbers[1:] != numbers[:-1]
    first[1:] &= change
    last[:-1] &= change
    index = np.where(inside, np.cumsum(first) - 1, -1)
    return Words(index, np.flatnonzero(first), np.flatnonzero(last) + 1)


FUNCTION_WORDS = tuple(
    """
    a an the this that these those
    i me my myself you your yourself he him his himself she her herself it its itself
    we us our ourselves they them their themselves who whom whose which what
    and or but nor so yet if because while although though since unless until whether than as
    of in on at by for with from to into onto over under above below between among through
    during before after about against within without across behind beyond along around near off up down out
    am is are was were be been being have has had having do does did doing
    will would shall should can could may might must
    not no there here then when where why how
    very too also just only even both either each every all any some such other more most same
    """.split()  # noqa: SIM905 - a list of them would be a page long
)
"""English function words in lower case: determiners, pronouns, conjunctions, prepositions, auxiliaries and so on."""
