"""Makes training pairs of a passage and what could be asked about it: a sentence of it, or its rare words."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from opencse.adapting.shared_words import SEARCHED
from opencse.text.scripts import count_words, search_words

MOST = 20_000
"""Most pairs of a kind."""
_FEWEST_WORDS = 3
_KEY_WORDS = (2, 5)
"""Fewest and most words of a short query, as people type them."""
_TOO_RARE = 2
"""A word that fewer passages hold is left out: nearly all are misspelt, or numbers."""
PassagePairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Passage:
    """A document, or a part of a long one.

    Attributes:
        title: of the document; empty where there is none.
        sentences: in reading order.
    """

    title: str
    sentences: tuple[str, ...]

    def without(self, number: int) -> str:
        """The passage as one text, without one sentence; -1 leaves none out."""
        remaining = (sentence for row, sentence in enumerate(self.sentences) if row != number)
        return " ".join((self.title, *remaining)).strip()


def sentences_with_passages(passages: Sequence[Passage], most: int) -> PassagePairs:
    """Pairs a sentence with the rest of its passage, from which it is removed (Lee et al. 2019, inverse cloze task).

    It teaches an encoder that reads only the beginning of a text what the later sentences of such a text are about.

    Args:
        passages: of at least two sentences; others are skipped.
        most: pairs to make, at most `MOST`; a random selection with a fixed seed, in a random order.

    Source: Latent Retrieval for Weakly Supervised Open Domain Question Answering. arXiv:1906.00300, section 4.

    Example:
        >>> kettles = Passage("Kettles", ("They boil the water quickly.", "Vinegar removes the limescale."))
        >>> sentences_with_passages([kettles], most=1)
        [('Vinegar removes the limescale.', 'Kettles They boil the water quickly.')]
    """
    rows = [
        (number, row)
        for number, passage in enumerate(passages)
        if len(passage.sentences) > 1
        for row, sentence in enumerate(passage.sentences)
        if count_words(sentence) >= _FEWEST_WORDS
    ]
    pairs = ((passages[number].sentences[row], passages[number].without(row)) for number, row in _drawn(rows, most))
    return [(sentence, rest) for sentence, rest in pairs if count_words(rest) >= _FEWEST_WORDS]


def rare_words_with_passages(passages: Sequence[Passage], most: int) -> PassagePairs:
    """Pairs two to five rare words of a sentence, in their order, with the passage: the short queries that people type.

    Words are those of search by words (`opencse.text.scripts.search_words`), so they have no language: in scripts
    without spaces they are pairs of characters. Each word's inverse document frequency is multiplied by a random number
    from 0.5 to 1.5 (a fixed seed), and the highest are taken. Words of one character, and words in only one passage,
    are left out.

    Args:
        passages: the answers; a random sample of `SEARCHED` where there are more.
        most: pairs to make, at most `MOST`.

    Source: our own; docs/results/adapt.md shows what they add.

    Example:
        >>> texts = ["A red kettle whistles.", "Each red valve leaks.", "The valve of the kettle."]
        >>> rare_words_with_passages([Passage("", (text,)) for text in texts], most=9)[0]
        ('red valve', 'Each red valve leaks.')
    """
    if len(passages) > SEARCHED:
        passages = random.Random(0).sample(passages, SEARCHED)
    holding = Counter(word for passage in passages for word in set(search_words(" ".join(passage.sentences))))
    weights = {
        word: math.log((len(passages) + 1) / (count + 0.5))
        for word, count in holding.items()
        if count >= _TOO_RARE and len(word) > 1
    }
    draw = random.Random(0)
    rows = [(number, row) for number, passage in enumerate(passages) for row in range(len(passage.sentences))]
    pairs: PassagePairs = []
    for number, row in _drawn(rows, most):
        words = list(dict.fromkeys(word for word in search_words(passages[number].sentences[row]) if word in weights))
        score = {word: weights[word] * (0.5 + draw.random()) for word in words}
        key_words = sorted(words, key=lambda word: (-score[word], word))[: draw.randint(*_KEY_WORDS)]
        if len(key_words) >= _KEY_WORDS[0]:
            pairs.append((" ".join(word for word in words if word in key_words), passages[number].without(-1)))
    return pairs


def _drawn(rows: list[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """At most ``most`` rows in a random order, always the same."""
    return random.Random(0).sample(rows, min(len(rows), most, MOST))
