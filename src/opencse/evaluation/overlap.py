"""The overlap of the words of two texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def plain_words(text: str) -> list[str]:
    """Splits a text at white space into lower-cased words; punctuation next to a word belongs to it.

    Example:
        >>> plain_words("A cat sleeps.")
        ['a', 'cat', 'sleeps.']
    """
    return text.lower().split()


def bag_f1(first: Iterable[str], second: Iterable[str]) -> float:
    r"""Computes F1 between two bags of words, in [0, 1] (SimCSE, section 4).

    .. math:: F_1(A, B) = \frac{2\, |A \cap B|}{|A| + |B|}

    A and B are multisets: a word that occurs twice on both sides counts twice.

    Raises:
        ValueError: if both are empty.

    Example:
        >>> bag_f1(["a", "cat", "sleeps"], ["a", "cat"])
        0.8
    """
    one, two = Counter(first), Counter(second)
    size = one.total() + two.total()
    if not size:
        raise ValueError("the F1 of two empty bags is undefined")
    return 2 * (one & two).total() / size
