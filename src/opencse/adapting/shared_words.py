"""Pairs by shared words: a title or sentence, and the passage of another document that BM25 finds first for it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import numpy as np

from opencse.progress import Count
from opencse.search.keyword_index import KeywordIndex
from opencse.text.documents import Document
from opencse.text.scripts import count_words

MOST = 20_000
"""Texts that are asked, at most."""
SEARCHED = 100_000
"""Passages in which they are looked for, at most: some at random where there are more."""
PASSAGE = 300
"""Words: a longer document is cut into passages of so many, at ends of sentences."""
Owned = tuple[int, str]
"""The number of a document, and a text of it."""


def by_shared_words(
    asked: Sequence[Owned], passages: Sequence[Owned], most: int, count: Count | None = None
) -> list[tuple[str, str]]:
    r"""The texts of ``asked``, each with the passage of another document that scores highest for it by BM25.

    BM25 knows nothing of meaning and all of names and rare words, of which a general encoder knows little in somebody's
    text. It takes no encoder, so the pairs are the same from every start. Nothing is drawn but by a fixed seed.

    Args:
        asked: titles and sentences.
        passages: what may answer.
        most: pairs wanted; as many of ``asked`` at random are taken, `MOST` at most.
        count: told the questions done, and of how many.

    Returns:
        At most ``most`` pairs; a text that shares no word with another document is in none.

    Source: our own; docs/results/adapt.md tells what they add.
    """
    draw = random.Random(0)
    questions = draw.sample(asked, min(len(asked), most, MOST))
    if len(passages) > SEARCHED:
        passages = draw.sample(passages, SEARCHED)
    words = KeywordIndex.of([text for _, text in passages])
    owners = np.array([owner for owner, _ in passages], dtype=np.int64)
    rows: list[tuple[str, str]] = []
    for done, (own, question) in enumerate(questions, 1):
        scores = words.scores(question)
        scores[owners == own] = 0.0
        if len(scores) and scores.max() > 0:
            rows.append((question, passages[int(scores.argmax())][1]))
        if count is not None and (done % 100 == 0 or done == len(questions)):
            count(done, len(questions))
    return rows


def passages_of(document: Document) -> Iterator[tuple[range, str]]:
    """A document in passages of about `PASSAGE` words: which sentences, and their text with the title before it."""
    first, words = 0, 0
    for number, sentence in enumerate(document.sentences, 1):
        words += count_words(sentence)
        if words >= PASSAGE or number == len(document.sentences):
            text = " ".join((document.title, *document.sentences[first:number])).strip()
            yield range(first, number), text
            first, words = number, 0
