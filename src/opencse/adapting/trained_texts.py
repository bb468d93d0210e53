"""Keeps what is asked apart from what is trained on: no score is of a question that training saw."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from opencse.adapting.holdout import normalised

_FIRST_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class TrainedTexts:
    """Says which of the texts that are asked about are trained on; letter case and punctuation do not count.

    Attributes:
        texts: those that occur in the training text.
        together: those that occur in one training row, two and two.
    """

    texts: frozenset[str] = frozenset()
    together: frozenset[frozenset[str]] = frozenset()

    @classmethod
    def among(cls, rows: Iterable[tuple[str, ...]], asked: Iterable[str]) -> TrainedTexts:
        """Looks the texts of ``asked`` up in the rows that are trained on; the rows are read one by one.

        Example:
            >>> rows = [("A dog.", "An animal."), ("Rain.", "Snow.")]
            >>> trained = TrainedTexts.among(rows, ["a dog", "an animal", "sun"])
            >>> "A DOG!" in trained, "Sun" in trained, trained.pair("an animal", "a dog")
            (True, False, True)
        """
        wanted = {normalised(text) for text in asked}
        first_words = {text.split(" ", 1)[0] for text in wanted}
        texts: set[str] = set()
        together: set[frozenset[str]] = set()

        def key_of(text: str) -> str | None:
            """The normalised text if it is asked about; most texts are told apart by their first word."""
            word = _FIRST_WORD.search(text)
            if word is not None and word[0].casefold() not in first_words:
                return None
            key = normalised(text)
            return key if key in wanted else None

        for row in rows:
            keys = [key for key in map(key_of, row) if key is not None]
            texts.update(keys)
            together.update(frozenset(two) for two in combinations(keys, 2))
        return cls(frozenset(texts), frozenset(together))

    def __contains__(self, text: str) -> bool:
        return normalised(text) in self.texts

    def pair(self, first: str, second: str) -> bool:
        """Whether the two are trained on in one row."""
        return frozenset((normalised(first), normalised(second))) in self.together
