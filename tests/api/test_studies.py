"""`opencse.compare` and `opencse.reproduce`: what they refuse before the first run."""

from __future__ import annotations

from pathlib import Path

import pytest

import opencse
from opencse.errors import UserError

TEXTS = ["The kettle boils.", "Snow fell on the hills."]


def test_a_baseline_is_one_of_the_recipes(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"the baseline 'simsce' is not among the recipes .did you mean 'simcse'"):
        opencse.compare(TEXTS, tmp_path / "out", ["simcse"], tmp_path, baseline="simsce")


def test_a_row_needs_published_scores(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no published scores are known"):
        opencse.reproduce("simcse", TEXTS, tmp_path / "out", tmp_path)
    assert not (tmp_path / "out").exists()
