"""The questions a text allows."""

from __future__ import annotations

import random

import numpy as np
import pytest

from opencse.documents import questions as kinds
from opencse.documents.questions import CANDIDATES, hold_out, shorten
from opencse.text.readers import Texts
from opencse.training.questions import QuestionSet


def words(draw: random.Random, count: int) -> str:
    return " ".join(f"w{draw.randint(0, 3_000)}" for _ in range(count))


def running(documents: int = 150) -> Texts:
    draw = random.Random(3)
    rows: list[tuple[str, ...]] = [(f"{words(draw, 9)}.",) for _ in range(documents * 6)]
    return Texts(rows, [n // 6 for n in range(len(rows))], "text")


def answer_of(questions: QuestionSet, number: int) -> str:
    return questions.candidates[int(questions.answers[number])]


def test_neighbours_follow_each_other_in_held_out_documents_alone() -> None:
    texts = running()
    held = hold_out(texts)
    found = kinds.neighbours(texts, held)
    place = {row[0]: n for n, row in enumerate(texts.rows)}
    assert len(found) == held.held.sum() * 5 / 6
    for number, query in enumerate(found.queries):
        row = place[query]
        assert place[answer_of(found, number)] == row + 1
        assert row // 6 == (row + 1) // 6
        assert held.held[row]
        assert held.held[row + 1]
        assert found.units[number] == held.units[row]
    assert len(set(found.candidates)) == len(found.candidates)
    assert set(found.candidates) > {texts.rows[row][0] for row in np.flatnonzero(held.held)[1::6]}


@pytest.mark.slow
def test_pairs_are_asked_among_documents_but_not_beside_another_form_of_an_answer() -> None:
    draw = random.Random(6)
    rows: list[tuple[str, ...]] = [(words(draw, 5), words(draw, 200)) for _ in range(400)]
    rows += [(row[0], words(draw, 9)) for row in rows[:200]]  # a second answer each
    texts = Texts(rows, None, "pairs")
    held = hold_out(texts)
    others = [words(draw, 30) for _ in range(300)]
    answers = [row[1] for row in rows]
    titled = [f"A Title: {answer.upper()}" for answer in answers]
    parts = [" ".join(answer.split()[2:]) for answer in answers]
    found, alone = kinds.pairs(texts, held, [*others, *titled, *parts]), kinds.pairs(texts, held)
    assert (found.queries, found.label) == (alone.queries, alone.label)
    assert [answer_of(found, n) for n in range(len(found))] == [answer_of(alone, n) for n in range(len(found))]
    candidates = set(found.candidates)
    assert candidates > set(others)
    told = {row for row, out in enumerate(held.held) if out}
    assert len(told) > len(found), "a second answer is asked about once alone"
    for row in range(len(rows)):
        forms = {shorten(titled[row]), shorten(parts[row])}
        assert (not forms & candidates) if row in told else forms <= candidates
    many = kinds.pairs(texts, held, [words(draw, 9) for _ in range(3 * CANDIDATES)])
    assert len(many.candidates) == CANDIDATES


def test_what_holds_an_answer_or_is_part_of_one_is_no_candidate() -> None:
    """Against comparing all with all."""
    draw = random.Random(5)
    vocabulary = [f"w{number}" for number in range(3)] + ["a", "ab", "b", "猫が"]
    texts = [" ".join(draw.choices(vocabulary, k=draw.randint(1, 9))) for _ in range(300)]
    answers = {" ".join(draw.choices(vocabulary, k=draw.randint(2, 8))) for _ in range(60)}
    plain = [text for text in kinds._by_hash(set(texts)) if not any(text in a or a in text for a in answers)]
    assert 10 < len(plain) < len(set(texts)) - 10
    assert list(kinds.without_answers(answers, texts)) == plain
