"""The words of a tokenised text, and the words that carry grammar rather than meaning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opencse.text.tokenizer import WordNumbers


@dataclass(frozen=True)
class Words:
    """Where the n words of a text are among its ids; each is one run of them.

    Attributes:
        index: (length,) which word (0 ... n - 1) each id is of, -1 for the special tokens.
        starts: (n,) place of each word's first id.
        ends: (n,) one past the place of its last id.
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
        """(length,) whether an id is of one of the ``chosen`` words."""
        is_chosen = np.zeros(len(self) + 1, dtype=bool)  # the last one is what special tokens (-1) look up
        is_chosen[words] = True
        return is_chosen[self.index]


def find_words(numbers: WordNumbers) -> Words:
    """The words behind the numbers of `TokenisedText`; numbers may be left out (a text that was cut on the left)."""
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
