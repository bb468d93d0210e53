"""Whole numbers as typed."""

from __future__ import annotations

import pytest

from opencse.numerals import whole_number


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("42", 42), ("007", 7), (str(2**63 - 1), 2**63 - 1)])
def test_numbers(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize("text", ["", "-1", "1.5", "x", " 1", "1_000", "²", str(2**63), "9" * 5_000])
def test_anything_else(text: str) -> None:
    assert whole_number(text) is None
