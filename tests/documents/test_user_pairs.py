"""How pairs of question and answer are added to what documents give."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from opencse.documents.given import FEWEST_PAIRS, TIMES, TRUST
from opencse.documents.material import material_of
from opencse.encoder.encoder import SentenceEncoder
from opencse.text.documents import Document
from opencse.text.scripts import normalised
from toy_documents import collection


def some_pairs(count: int) -> list[tuple[str, str]]:
    draw = random.Random(3)
    return [
        (f"q{n} " + " ".join(f"w{draw.randint(0, 99)}" for _ in range(6)), f"an answer a{n} of {n}")
        for n in range(count)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("count", [300, 3_000])
def test_many_pairs_are_added_too_and_both_kinds_of_questions_select(count: int) -> None:
    documents, pairs = collection(800), some_pairs(count)
    with_pairs, alone = material_of(documents, pairs=pairs), material_of(documents)
    assert with_pairs.questions is not None
    assert alone.questions is not None
    of_pairs, of_titles = with_pairs.questions.sets
    assert FEWEST_PAIRS <= len(of_pairs) <= count / 5 + 10
    assert of_titles.queries == alone.questions.sets[0].queries
    assert with_pairs.rows[: len(alone.rows)] == alone.rows
    trained = with_pairs.rows[len(alone.rows) :]
    asked = set(of_pairs.queries)
    assert set(trained) == {pair for pair in pairs if pair[0] not in asked}
    times = len(trained) / len(set(trained))
    assert times == min(TIMES, max(1, len(alone.rows) // len(set(trained))))
    assert {f"{d.title} {d.body}" for d in documents} & set(of_pairs.candidates)


@pytest.mark.slow
def test_no_held_out_question_is_trained_on_and_no_held_out_answer_either() -> None:
    documents, pairs = collection(800), some_pairs(600)
    questions = material_of(documents, pairs=pairs).questions
    assert questions is not None
    query = questions.sets[0].queries[0]
    repeating = Document(f"{query.upper()}!", ("A body of some words.", "And much more here."))
    material = material_of([*documents, repeating], pairs=pairs)
    trained = {normalised(text) for row in material.rows for text in row}
    assert material.questions is not None
    assert not trained & {normalised(text) for text in material.questions.held_out()}
    assert normalised("A body of some words.") in trained, "its neighbouring sentences are"


@pytest.mark.slow
def test_the_score_weighs_pairs_by_how_many_there_are() -> None:
    documents = collection(800)
    encoder = SentenceEncoder.load()
    for count in (300, 900):
        questions = material_of(documents, pairs=some_pairs(count)).questions
        assert questions is not None
        values = questions.values(encoder)
        n = len(questions.sets[0])
        weight = n / (n + TRUST)
        assert questions.weights == pytest.approx((weight, 1 - weight))
        alone = [replace(questions, sets=(one,), weights=()).values(encoder).mean() for one in questions.sets]
        assert values.mean() == pytest.approx(weight * alone[0] + (1 - weight) * alone[1])
        assert alone[0] != pytest.approx(alone[1])
        assert questions.parts(values) == pytest.approx({"pairs": alone[0], "titles": alone[1]})
        units = np.split(questions.units, [n])
        assert not {*units[0].tolist()} & {*units[1].tolist()}, "pairs and documents are different units"
