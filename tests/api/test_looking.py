"""`opencse.analyze`: what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

import opencse
from opencse.errors import UserError


def test_a_folder_of_something_else_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="is not empty"):
        opencse.analyze("opencse-mini", tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"
