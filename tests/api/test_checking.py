"""`opencse.check`: values that it refuses, and what it returns."""

from __future__ import annotations

import pytest

import opencse
from opencse.errors import UserError


def test_a_check_counts_what_is_repeated() -> None:
    result = opencse.check(["One kettle boils.", "Snow fell.", "One kettle boils.", "Snow fell."])
    assert (result.rows, result.duplicates) == (4, 0.5)


def test_text_that_the_builtin_encoder_does_not_know_gets_another_model() -> None:
    german = ["Das Ventil der Pumpe ist undicht.", "Der Motor läuft in der Nacht zu heiß."]
    english = ["The valve of the pump is leaking.", "The engine runs too hot at night."]
    assert any("knows little German" in line and "--model" in line for line in opencse.check(german).advice)
    assert not any("knows little" in line for line in opencse.check(english).advice)


def test_shares_and_lengths_out_of_range_are_refused() -> None:
    with pytest.raises(UserError, match="near_duplicates is above 0"):
        opencse.check(["One.", "Two."], near_duplicates=0)
    with pytest.raises(UserError, match="max_length is at least 3 and at most 1,000,000"):
        opencse.check(["One.", "Two."], max_length=0)
