"""Pairs by shared words: BM25's own choice, another document's, and nothing that is held out."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import pytest

from opencse.documents.material import material_of, pairs_by_shared_words
from opencse.text.documents import Document
from opencse.text.scripts import normalised


def some(draw: random.Random, words: int, known: int = 300) -> str:
    return " ".join(f"w{draw.randint(0, known)}" for _ in range(words))


def bm25(question: str, texts: list[str], k1: float = 1.5, b: float = 0.75) -> list[float]:
    """Robertson and Zaragoza 2009, eq. 3.15, with Lucene's idf; word by word."""
    counted = [Counter(text.split()) for text in texts]
    mean = sum(len(text.split()) for text in texts) / len(texts)
    scores = []
    for count in counted:
        score = 0.0
        for word in question.split():
            holding = sum(word in other for other in counted)
            if not holding:
                continue
            idf = math.log(1 + (len(texts) - holding + 0.5) / (holding + 0.5))
            tf = count[word]
            score += idf * tf / (tf + k1 * (1 - b + b * sum(count.values()) / mean))
        scores.append(score)
    return scores


def test_it_is_the_best_passage_of_another_document() -> None:
    draw = random.Random(1)
    passages = [(number // 2, some(draw, draw.randint(10, 40))) for number in range(60)]
    asked = [(number, some(draw, 6)) for number in range(30)]
    found = dict(pairs_by_shared_words(asked, passages, 1_000))
    assert len(found) == 30
    own_would_be_best = 0
    for own, question in asked:
        scores = bm25(question, [text for _, text in passages])
        others = [0.0 if owner == own else score for (owner, _), score in zip(passages, scores, strict=True)]
        assert found[question] == passages[int(np.argmax(others))][1]
        own_would_be_best += max(scores) > max(others)
    for own in range(30):  # a passage's own words: without the rule each would find itself
        rows = pairs_by_shared_words([passages[2 * own]], passages, 1)
        assert rows[0][1] not in {text for owner, text in passages if owner == own}


@pytest.mark.slow
@pytest.mark.parametrize("titled", [True, False])
def test_nothing_held_out_is_question_or_answer(titled: bool) -> None:
    draw = random.Random(6)
    documents = [Document(some(draw, 4) if titled else "", tuple(some(draw, 8) for _ in range(4))) for _ in range(600)]
    asked = material_of(documents).questions
    assert asked is not None
    held = {query for probe in asked.sets for query in probe.queries}
    victims = [one for one in documents if held & {normalised(text) for text in (one.title, *one.sentences)}]
    assert 60 <= len(victims) <= 300
    copy = Document(victims[0].title.upper(), victims[0].sentences)
    found = material_of([*documents, copy])
    assert "pairs by shared words" in found.facts
    assert found.questions is not None
    told = {query for probe in found.questions.sets for query in probe.queries}
    shared = [row for row in found.rows if any(row[1] == f"{one.title} {one.body}".strip() for one in documents)]
    assert len(shared) > 500
    assert not {normalised(text) for row in found.rows for text in row} & {normalised(text) for text in told}
    bodies = [one.body for one in victims]
    assert not any(body in answer for _, answer in shared for body in bodies)
