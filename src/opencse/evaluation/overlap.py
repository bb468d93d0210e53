"""How many words the two texts of a pair share."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from opencse.errors import UserError

Words = Callable[[str], Iterable[str]]


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


def lexical_overlap(first: Sequence[str], second: Sequence[str], words: Words = plain_words) -> float:
    """Mean F1 between the words of n pairs, in percent (SimCSE, section 4: NLI entailment pairs 39, QQP 60).

    The paper does not say what a word is. Lower-cased words between white space give 39.1 on 15,693 entailment pairs,
    most of them from SNLI; case kept gives 36.4, words and punctuation apart 46.7.

    Args:
        first: n texts.
        second: n texts.
        words: text -> its words.

    Raises:
        UserError: if there are no pairs, or neither text of a pair has a word.
        ValueError: if the two are not of one length.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} first and {len(second)} second texts; one of each a pair is expected")
    if not len(first):
        raise UserError("no pairs to measure the overlap of; give at least one")
    values = []
    for number, (one, two) in enumerate(zip(first, second, strict=True), start=1):
        bags = list(words(one)), list(words(two))
        if not any(bags):
            raise UserError(f"pair {number}: neither text holds a word; drop the pair")
        values.append(bag_f1(*bags))
    return 100 * math.fsum(values) / len(values)
