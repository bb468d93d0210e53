"""`opencse.check` and `opencse.analyze`: values that they refuse, and what they return."""

from __future__ import annotations

from pathlib import Path

import pytest

import opencse
from opencse.errors import UserError


def test_a_check_counts_what_is_repeated() -> None:
    result = opencse.check(["One kettle boils.", "Snow fell.", "One kettle boils.", "Snow fell."])
    assert (result.rows, result.duplicates) == (4, 0.5)


def test_shares_and_lengths_out_of_range_are_refused() -> None:
    with pytest.raises(UserError, match="near_duplicates is above 0"):
        opencse.check(["One.", "Two."], near_duplicates=0)
    with pytest.raises(UserError, match="max_length is from 1"):
        opencse.check(["One.", "Two."], max_length=0)


def test_a_folder_of_something_else_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="is not empty"):
        opencse.analyze("opencse-mini", tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"
