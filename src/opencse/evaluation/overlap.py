"""How many words the two texts of a pair share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def plain_words(text: str) -> list[str]:
    """The words between white space, lower-cased; a full stop that is not set apart belongs to its word."""
    return text.lower().split()


def bag_f1(first: Iterable[str], second: Iterable[str]) -> float:
    r"""F1 between two bags of words, in [0, 1] (SimCSE, section 4).

    .. math:: F_1(A, B) = \frac{2\, |A \cap B|}{|A| + |B|}

    A and B are multisets: a word that stands twice on both sides counts twice.

    Raises:
        ValueError: if both are empty.
    """
    one, two = Counter(first), Counter(second)
    size = one.total() + two.total()
    if not size:
        raise ValueError("the F1 of two empty bags is undefined")
    return 2 * (one & two).total() / size
