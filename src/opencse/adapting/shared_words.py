"""Makes training pairs of a title or sentence and the passage of another document with the highest BM25 score."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import numpy as np

from opencse.progress import Count
from opencse.search.keyword_index import KeywordIndex
from opencse.text.documents import Document
from opencse.text.scripts import count_words

MOST = 20_000
"""Most titles and sentences that are looked up."""
SEARCHED = 100_000
"""Most passages that are searched; a random sample where there are more."""
PASSAGE = 300
"""Words of a passage: a longer document is split into passages of about this size, at ends of sentences."""
Owned = tuple[int, str]
"""The number of a document, and a text of it."""


def pairs_by_shared_words(
    questions: Sequence[Owned], passages: Sequence[Owned], most: int, count: Count | None = None
) -> list[tuple[str, str]]:
    r"""Pairs each title or sentence with the passage of another document that scores highest for it by BM25.

    BM25 compares words and no meaning, and so finds the names and rare words that a general encoder does not know. It
    needs no encoder, so the pairs are the same for every start. Random choices use a fixed seed.

    Args:
        questions: titles and sentences.
        passages: the possible answers.
        most: pairs to make; as many of ``questions`` are drawn at random, at most `MOST`.
        count: called with the questions done, and of how many.

    Returns:
        At most ``most`` pairs; a text that shares no word with another document is in none.

    Source: our own; docs/results/adapt.md shows what they add.

    Example:
        >>> questions = [(0, "the kettle has limescale")]
        >>> passages = [(0, "my kettle"), (1, "vinegar removes limescale"), (2, "a long walk")]
        >>> pairs_by_shared_words(questions, passages, most=1)
        [('the kettle has limescale', 'vinegar removes limescale')]
    """
    draw = random.Random(0)
    questions = draw.sample(questions, min(len(questions), most, MOST))
    if len(passages) > SEARCHED:
        passages = draw.sample(passages, SEARCHED)
    words = KeywordIndex.of([text for _, text in passages])
    owners = np.array([owner for owner, _ in passages], dtype=np.int64)
    rows: list[tuple[str, str]] = []
    for done, (owner, question) in enumerate(questions, 1):
        scores = words.scores(question)
        scores[owners == owner] = 0.0
        if len(scores) and scores.max() > 0:
            rows.append((question, passages[int(scores.argmax())][1]))
        if count is not None and (done % 100 == 0 or done == len(questions)):
            count(done, len(questions))
    return rows


def passages_of(document: Document) -> Iterator[tuple[range, str]]:
    """Splits a document into passages of about `PASSAGE` words: their sentences, and the text after the title."""
    first, words = 0, 0
    for number, sentence in enumerate(document.sentences, 1):
        words += count_words(sentence)
        if words >= PASSAGE or number == len(document.sentences):
            text = " ".join((document.title, *document.sentences[first:number])).strip()
            yield range(first, number), text
            first, words = number, 0
