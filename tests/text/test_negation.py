"""Negation by rule: auxiliaries, do, a dropped ``not``, and a leading ``Not``."""

from __future__ import annotations

import pytest

from opencse.text.negation import negated


@pytest.mark.parametrize(
    ("text", "negation"),
    [
        ("The dog is asleep .", "The dog is not asleep ."),
        ("They will not come .", "They will come ."),
        ("He has been there .", "He has not been there ."),
        ("He has a car .", "He does not have a car ."),
        ("She wrote two books .", "She did not write two books ."),
        ("It covers the area .", "It does not cover the area ."),
        ("We like tea .", "We do not like tea ."),
        ("He tried again .", "He did not try again ."),
        ("He cannot swim .", "He can swim ."),
        ('He said "no" .', 'He did not say "no" .'),
        ("A quiet town in the north", "Not A quiet town in the north"),
        ("", "Not "),
    ],
)
def test_rules(text: str, negation: str) -> None:
    assert negated(text) == negation
