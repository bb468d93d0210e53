"""``opencse finish``."""

from __future__ import annotations

from pathlib import Path

from helpers import Run


def test_a_folder_without_a_run_is_refused(opencse: Run, tmp_path: Path) -> None:
    code, _, err = opencse("finish", tmp_path)
    assert (code, "holds no run" in err) == (2, True)
    code, _, err = opencse("finish", tmp_path / "missing")
    assert (code, "no such folder" in err) == (2, True)
