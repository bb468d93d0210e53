"""Kinds of questions that `selection.py` found no use for, next to those of `opencse.documents.questions`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from opencse.documents.questions import HeldOut, Pieces, questions_of_parts
from opencse.text.readers import Texts
from opencse.text.scripts import normalised
from opencse.training.questions import QuestionSet

COMMON = 0.05
"""Share of the texts: words in more of them do not give an answer away."""


def sentence_halves(texts: Texts, held: HeldOut) -> QuestionSet:
    """Asks for the second half of a sentence's words by the first half, among the halves of other sentences."""
    return questions_of_parts(texts, held, "sentence halves", "sentence-half questions", _halves)


def dropped_words(texts: Texts, held: HeldOut) -> QuestionSet:
    """Asks for the dropped words of a sentence by every second word, among the dropped words of other sentences."""
    return questions_of_parts(texts, held, "dropped words", "dropped-word questions", _alternate)


def without_giveaways(questions: QuestionSet) -> QuestionSet:
    """Removes from each query the words that are also in its answer, except common ones.

    The questions can then no longer be answered by matching words. A question with fewer than three words left is
    dropped.
    """
    known = [set(normalised(text).split()) for text in questions.candidates]
    spread = Counter(word for words in known for word in words)
    most = max(2.0, COMMON * len(known))
    remaining: list[int] = []
    queries: list[str] = []
    for number, (query, answer) in enumerate(zip(questions.queries, questions.answers.tolist(), strict=True)):
        shared = {word for word in known[answer] if spread[word] <= most}
        words = [word for word in query.split() if not set(normalised(word).split()) & shared]
        if len(words) >= 3:
            remaining.append(number)
            queries.append(" ".join(words))
    return replace(
        questions,
        kind=f"{questions.kind}, no shared words",
        queries=queries,
        answers=questions.answers[remaining],
        units=questions.units[remaining],
    )


def _halves(words: Pieces) -> tuple[Pieces, Pieces]:
    middle = len(words) // 2
    return words[:middle], words[middle:]


def _alternate(words: Pieces) -> tuple[Pieces, Pieces]:
    return words[::2], words[1::2]
