"""Which questions are dropped, and why."""

from __future__ import annotations

import pytest

from opencse.asking.plan import SourcePassage
from opencse.asking.writing import DETECTED, REASONS, QuestionFilter, is_copy
from opencse.search.stems import LANGUAGES

PASSAGE = SourcePassage(
    0,
    "a",
    1,
    "Care of kettles",
    "Care of kettles\nVinegar in warm water removes the limescale of many years from a kettle.",
)


@pytest.mark.parametrize(
    ("question", "fault"),
    [
        ("how to clean a kettle", None),
        ("kettle", "short"),
        ("why " * 41, "long"),
        ("Vinegar in warm water removes the limescale of many years", "copy"),
        ("does vinegar in warm water remove it?", None),
        ("Care of Kettles?", "copy"),
        ("I'm sorry, but I cannot help with that.", "refusal"),
        ("I cannot generate questions about this.", "refusal"),
        ("As an AI language model, I have no kettle", "refusal"),
        ("I can't log in to my account", None),
        ("I cannot open the kettle's lid", None),
    ],
)
def test_reasons(question: str, fault: str | None) -> None:
    assert QuestionFilter().fault(question, PASSAGE) == fault
    assert fault is None or fault in REASONS


def test_repeats_are_found_whatever_their_punctuation_and_case() -> None:
    keep = QuestionFilter()
    questions = ["How to clean a kettle?", "how to clean a kettle", "HOW TO  CLEAN, a kettle!", "how to fill a kettle"]
    assert [keep.fault(question, PASSAGE) for question in questions] == [None, "repeat", "repeat", None]


def test_a_question_that_is_clearly_in_another_language_is_dropped() -> None:
    german, english = "Wie kann ich den Kalk aus dem Kessel entfernen?", "How can I get the lime out of the kettle?"
    assert QuestionFilter(language="german").fault(english, PASSAGE) == "language"
    assert QuestionFilter(language="german").fault(german, PASSAGE) is None
    assert QuestionFilter(language="german").fault("Kessel entkalken", PASSAGE) is None
    assert QuestionFilter().fault(german, PASSAGE) is None
    assert set(LANGUAGES.values()) >= DETECTED


def test_copies_in_a_language_without_spaces() -> None:
    passage = SourcePassage(0, "a", 1, "", "这个水壶可以用白醋清洗水垢并且非常安全")
    assert is_copy("水壶可以用白醋清洗水垢", passage)
    assert not is_copy("怎么去除水垢", passage)
