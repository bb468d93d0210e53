"""`opencse.finish`: folders that hold no run."""

from __future__ import annotations

from pathlib import Path

import pytest

import opencse
from opencse.errors import UserError


def test_folders_without_a_run_are_named_for_what_they_are(tmp_path: Path, tiny_folder: Path) -> None:
    for folder, message in (
        (tmp_path / "missing", "no such folder"),
        (tmp_path, "holds no run"),
        (tiny_folder, "holds a model and no run"),
    ):
        with pytest.raises(UserError, match=message):
            opencse.finish(folder)
    with pytest.raises(TypeError, match="folder is a path"):
        opencse.finish(["a"])  # type: ignore[arg-type]
