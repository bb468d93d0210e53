"""How a published row's encoder is evaluated, in words."""

from __future__ import annotations

from opencse.recipes.judged import Judged


def test_in_words() -> None:
    assert str(Judged()) == ""
    assert str(Judged(transform="flow")) == "flow fitted on the text that is given"
    assert str(Judged(trained=False)) == "untrained"
    assert Judged(transform="flow", fit="target").on_target
    assert not Judged(fit="target").on_target
