"""`opencse.export_static`: its options and what it returns."""

from __future__ import annotations

from pathlib import Path

import pytest

import opencse
from opencse.errors import UserError
from opencse.export.distil import DistilSettings


def test_a_dimension_above_the_model_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="dimension 9999 is above"):
        opencse.export_static(tiny_folder, tmp_path / "table", settings=DistilSettings(dimension=9_999), device="cpu")


def test_columns_need_a_corpus(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--columns needs --corpus"):
        opencse.export_static("opencse-mini", tmp_path / "table", columns=["body"])
