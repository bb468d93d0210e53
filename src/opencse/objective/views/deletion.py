"""Views that leave words of the sentence out of the positive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from opencse.objective.views.base import TokenView, word_numbers
from opencse.settings import PartSettings
from opencse.text.tokenizer import Ids, TokenisedText, WordNumbers
from opencse.text.words import Words, find_words


class Crop(TokenView):
    """A contiguous part of the sentence (SimCSE, Table 1, "Crop k%: keep 100 - k% of the length").

    Of n words (delimited by white space), ``max(1, round((1 - rate) * n))`` consecutive ones are kept; the first is
    drawn uniformly. Table 1: 77.8 / 71.4 / 63.6 at 10 / 20 / 30%, against 82.5 for dropout alone. No code was
    published.

    Example:
        >>> ids = np.array([101, 11, 12, 13, 14, 102])  # special, four words of one id each, special
        >>> words = np.array([-1, 0, 1, 2, 3, -1])  # the number of each id's word
        >>> Crop(Crop.Settings(rate=0.5)).changed(ids, words, np.random.default_rng(0)).tolist()
        [101, 13, 14, 102]
    """

    class Settings(PartSettings):
        """Settings of `Crop`; ``rate`` is the share that is left out."""

        kind: Literal["crop"] = "crop"
        rate: float = Field(default=0.1, gt=0, lt=1)

    settings: Settings

    def changed(self, ids: Ids, numbers: WordNumbers, random: np.random.Generator) -> Ids:
        """(length,) -> (ids of the words kept and the special tokens,)."""
        words = find_words(numbers)
        n = len(words)
        count = min(n, max(1, round((1 - self.settings.rate) * n)))
        start = random.integers(n - count + 1)
        index = words.index
        return ids[(index < 0) | ((index >= start) & (index < start + count))]


class DeleteWords(TokenView):
    """A share of the words left out (SimCSE, Table 1, "word deletion k%: delete k% words").

    Of n words (delimited by white space), ``min(n - 1, round(rate * n))`` are drawn uniformly and left out: short
    sentences may lose none, and one word always stays. Table 1: 75.9 / 72.2 / 68.2 at 10 / 20 / 30%. No code was
    published.

    TSDAE damages the text that the encoder reads, with ``sides = "anchors"``; its code leaves each word out with
    probability ``rate`` by itself (``draw = "each"``), and one drawn uniformly stays where none would.

    Example:
        >>> ids = np.array([101, 11, 12, 13, 14, 102])  # special, four words of one id each, special
        >>> words = np.array([-1, 0, 1, 2, 3, -1])  # the number of each id's word
        >>> DeleteWords(DeleteWords.Settings(rate=0.5)).changed(ids, words, np.random.default_rng(0)).tolist()
        [101, 12, 14, 102]
    """

    class Settings(PartSettings):
        """Settings of `DeleteWords`.

        Attributes:
            rate: share that is left out.
            sides: whose words: the positives', the anchors', or both, by draws apart.
            draw: leave out an exact share of the words, or each word with this probability.
        """

        kind: Literal["delete_words"] = "delete_words"
        rate: float = Field(default=0.1, gt=0, lt=1)
        sides: Literal["positives", "anchors", "both"] = "positives"
        draw: Literal["share", "each"] = "share"

    settings: Settings

    def positives(self, texts: Sequence[TokenisedText], random: np.random.Generator) -> Sequence[Ids]:
        """Changes the ids of each text, if ``sides`` says so."""
        return super().positives(texts, random) if self.settings.sides != "anchors" else [text.ids for text in texts]

    def changed_anchors(self, texts: Sequence[TokenisedText], random: np.random.Generator) -> Sequence[Ids]:
        """Changes the ids of each text, if ``sides`` says so."""
        if self.settings.sides == "positives":
            return [text.ids for text in texts]
        return [self.changed(text.ids, word_numbers(text), random) for text in texts]

    def changed(self, ids: Ids, numbers: WordNumbers, random: np.random.Generator) -> Ids:
        """(length,) -> (ids of the words kept and the special tokens,)."""
        words = find_words(numbers)
        if self.settings.draw == "each":
            return _without_each(ids, words, self.settings.rate, random)
        return without(ids, words, round(self.settings.rate * len(words)), random)


class DeleteOneWord(TokenView):
    """One word left out, drawn uniformly (SimCSE, Tables 1 and 2, "delete one word": 75.9, 74.2 without dropout).

    Words are delimited by white space; a sentence of one word stays as it is. No code was published.

    Example:
        >>> ids = np.array([101, 11, 12, 13, 14, 102])  # special, four words of one id each, special
        >>> words = np.array([-1, 0, 1, 2, 3, -1])  # the number of each id's word
        >>> DeleteOneWord().changed(ids, words, np.random.default_rng(0)).tolist()
        [101, 11, 12, 14, 102]
    """

    class Settings(PartSettings):
        """Settings of `DeleteOneWord`."""

        kind: Literal["delete_one_word"] = "delete_one_word"

    def changed(self, ids: Ids, numbers: WordNumbers, random: np.random.Generator) -> Ids:
        """(length,) -> (length - ids of the word,)."""
        return without(ids, find_words(numbers), 1, random)


def _without_each(ids: Ids, words: Words, rate: float, random: np.random.Generator) -> Ids:
    """Leaves out each word with probability ``rate``; where none would stay, one drawn uniformly does."""
    deleted = random.random(len(words)) < rate
    if len(words) and deleted.all():
        deleted[random.integers(len(words))] = False
    return ids[~words.ids_of(np.flatnonzero(deleted))]


def without(ids: Ids, words: Words, count: int, random: np.random.Generator) -> Ids:
    """Leaves out ``count`` of the ``words``, drawn uniformly; one word always stays."""
    n = len(words)
    return ids[~words.ids_of(random.permutation(n)[: min(count, max(0, n - 1))])]
