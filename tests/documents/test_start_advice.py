"""A weak start is noticed on the questions from the text, and another one is advised."""

from __future__ import annotations

import numpy as np
import pytest

from opencse.documents.advice import advice_for, advice_on_words
from opencse.documents.questions import TextQuestions, hold_nothing_out, text_questions
from opencse.encoder.encoder import SentenceEncoder
from opencse.text import sample
from opencse.text.readers import Source, Texts
from opencse.training.questions import QuestionSet


@pytest.fixture(scope="module")
def questions() -> TextQuestions:
    made = text_questions(Source(str(sample.TRAIN)).read())
    assert made is not None
    return made


@pytest.mark.slow
def test_a_start_is_compared_with_the_built_in_encoder(questions: TextQuestions) -> None:
    builtin = float(questions.values(SentenceEncoder.load("opencse-mini", device="cpu")).mean())
    assert advice_for(questions, builtin + 0.1) is None
    line = advice_for(questions, 3.2)
    assert line is not None
    assert f"(opencse-mini) has {builtin:.2f} on these questions, this start 3.20" in line
    assert "--model sentence-transformers/all-MiniLM-L6-v2" in line


def test_questions_that_words_alone_answer_are_told() -> None:
    queries = [f"which number is {n}" for n in range(9)]

    def asked(candidates: list[str], *, from_pairs: bool = False) -> str | None:
        one = QuestionSet("crops", "questions", queries, candidates, np.arange(9), np.arange(9))
        held = hold_nothing_out(Texts([(query,) for query in queries], None, ""))
        return advice_on_words(TextQuestions((one,), held, from_pairs=from_pairs))

    own = [f"{n} is the number" for n in range(9)]
    assert "BM25 alone has 100.0 on the questions from the text itself (nDCG@10 x 100)" in str(asked([*own, *queries]))
    assert asked(own, from_pairs=True) is None
    assert asked([f"answer {chr(97 + n)}" for n in range(9)]) is None
