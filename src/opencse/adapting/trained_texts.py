"""Finds texts of the dev data that also occur in the training text, so that they can be left out of the scores."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

from opencse.text.scripts import normalised

_FIRST_WORD = re.compile(r"\w+")


def rows_without(rows: Sequence[tuple[str, ...]], texts: Iterable[str]) -> list[tuple[str, ...]]:
    """The rows in which none of ``texts`` occurs; letter case and punctuation do not matter.

    Example:
        >>> rows_without([("A dog.", "An animal."), ("Rain.", "Snow.")], ["RAIN"])
        [('A dog.', 'An animal.')]
    """
    keys = {normalised(text) for text in texts}
    if not keys:
        return list(rows)

    @cache  # a text is in many rows
    def occurs(text: str) -> bool:
        return normalised(text) in keys

    return [row for row in rows if not any(map(occurs, row))]


@dataclass(frozen=True)
class TrainedTexts:
    """Texts of the dev data that also occur in the training text; letter case and punctuation do not matter.

    Attributes:
        texts: normalised texts that occur in the training text.
        together: pairs of them that occur in one training row.

    Example:
        >>> rows = [("A dog.", "An animal."), ("Rain.", "Snow.")]
        >>> trained = TrainedTexts.among(rows, ["a dog", "an animal", "sun"])
        >>> "A DOG!" in trained, "Sun" in trained, trained.pair("an animal", "a dog")
        (True, False, True)
    """

    texts: frozenset[str] = frozenset()
    together: frozenset[frozenset[str]] = frozenset()

    @classmethod
    def among(cls, rows: Iterable[tuple[str, ...]], dev_texts: Iterable[str]) -> TrainedTexts:
        """Looks up ``dev_texts`` in the training rows, which are read one by one."""
        wanted_keys = {normalised(text) for text in dev_texts}
        first_words = {text.split(" ", 1)[0] for text in wanted_keys}
        texts: set[str] = set()
        together: set[frozenset[str]] = set()

        def key_of(text: str) -> str | None:
            """The normalised text if it is a dev text; the first word rules most texts out quickly."""
            word = _FIRST_WORD.search(text)
            if word is not None and word[0].casefold() not in first_words:
                return None
            key = normalised(text)
            return key if key in wanted_keys else None

        for row in rows:
            keys = [key for key in map(key_of, row) if key is not None]
            texts.update(keys)
            together.update(frozenset(two) for two in combinations(keys, 2))
        return cls(frozenset(texts), frozenset(together))

    def __contains__(self, text: str) -> bool:
        return normalised(text) in self.texts

    def pair(self, first: str, second: str) -> bool:
        """Whether both texts occur in one training row."""
        return frozenset((normalised(first), normalised(second))) in self.together
