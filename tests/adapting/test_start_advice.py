"""A weak start is noticed on the questions from the text, and another one is advised."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opencse
from helpers import Heard
from opencse.adapting.holdout import hold_nothing_out
from opencse.adapting.question_sets import QuestionSet
from opencse.adapting.start_advice import advice_for, advice_for_builtin, advice_on_words, language_of_documents
from opencse.adapting.text_questions import TextQuestions, text_questions
from opencse.encoder.encoder import SentenceEncoder
from opencse.text import sample
from opencse.text.documents import Document
from opencse.text.readers import Source, Texts


@pytest.fixture(scope="module")
def questions() -> TextQuestions:
    made = text_questions(Source(str(sample.TRAIN)).read())
    assert made is not None
    return made


def test_a_start_is_compared_with_the_built_in_encoder(questions: TextQuestions) -> None:
    builtin = float(questions.values(SentenceEncoder.load("opencse-mini", device="cpu")).mean())
    assert advice_for(questions, builtin + 0.1) is None
    line = advice_for(questions, 3.2)
    assert line is not None
    assert f"(opencse-mini) has {builtin:.2f} on these questions, this start 3.20" in line
    assert "--model sentence-transformers/all-MiniLM-L6-v2" in line


def test_the_language_decides_what_is_advised() -> None:
    german = [Document("", ("Das ist der Kessel, und er ist mit dem Wasser auf dem Herd.",))] * 5_000
    assert language_of_documents(german) == "german"
    assert "multilingual-e5-small" in advice_for_builtin("german")
    for language in (None, "english"):
        assert "all-MiniLM-L6-v2" in advice_for_builtin(language)


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


def test_the_line_comes_after_the_score_of_a_weak_start(tiny_folder: Path, tmp_path: Path) -> None:
    settings = ["training.max_steps=1", "training.batch_size=8"]
    heard = Heard()
    out = tmp_path / "out"
    opencse.adapt(sample.TRAIN, out, model=str(tiny_folder), settings=settings, report=False, progress=heard)
    scored = next(n for n, line in enumerate(heard.said) if " on questions from the text itself (nDCG@10" in line)
    advised = next(n for n, line in enumerate(heard.said) if line.startswith("advice     weak start: "))
    assert scored < advised < len(heard.said) - 1
    assert sum(line.startswith("advice     weak start") for line in heard.said) == 1
