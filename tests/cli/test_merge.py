"""``opencse merge``."""

from __future__ import annotations

from pathlib import Path

from helpers import Run


def test_a_complete_model_has_nothing_to_merge(opencse: Run, tmp_path: Path, tiny_folder: Path) -> None:
    code, _, err = opencse("merge", tiny_folder, "--out", tmp_path / "merged")
    assert (code, "holds no adapters" in err) == (2, True)
    assert not (tmp_path / "merged").exists()
