"""The prompt, its placeholders and its examples."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.asking.plan import PLACEHOLDERS, TEMPLATE, QuestionPrompt, SourcePassage
from opencse.errors import UserError

PASSAGE = SourcePassage(0, "a", 1, "Kettles", "Kettles\nVinegar {{ count }} removes limescale.")


def test_the_built_in_prompt_has_title_text_count_and_asks_for_json() -> None:
    prompt = QuestionPrompt(count=4).of(PASSAGE)
    assert "Write 4 different" in prompt
    assert "Title: Kettles\nText: Vinegar {{ count }} removes limescale." in prompt
    assert "language of the text" in prompt
    assert prompt.endswith("Answer with a JSON array of 4 strings and nothing else.")
    assert "Title" not in QuestionPrompt().of(SourcePassage(0, "a", 1, "", "A text."))


def test_examples_and_language_steer_it() -> None:
    prompt = QuestionPrompt(examples=["kettle lime", "descale kettle?"]).of(PASSAGE)
    assert "which people really typed:\n  kettle lime\n  descale kettle?\n" in prompt
    assert "language of the text" not in prompt
    assert "Write in German." in QuestionPrompt(language="German").of(PASSAGE)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("Ask about {{ txt }}", "no value for {{ txt }}"),
        ("Ask {{ count }} questions", "has no {{ text }}"),
        ("Ask {% if %} {{ text }}", "line 1: is no Jinja template"),
        ("{{ text.__class__.__mro__ }}", "cannot be filled"),
        ("{{ text }} {{ 1 / 0 }}", "cannot be filled"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused(template: str, message: str) -> None:
    with pytest.raises(UserError, match=r"my\.txt") as error:
        QuestionPrompt(template, where="my.txt").of(PASSAGE)
    assert message in str(error.value)


def test_the_guide_shows_the_template_and_every_placeholder() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "questions.md").read_text(encoding="utf-8")
    assert TEMPLATE in guide
    for name in PLACEHOLDERS:
        assert f"`{{{{ {name} }}}}`" in guide
