"""``opencse push``."""

from __future__ import annotations

from pathlib import Path

from helpers import Run


def test_a_folder_that_does_not_exist_is_refused(opencse: Run, tmp_path: Path) -> None:
    code, _, err = opencse("push", tmp_path / "missing", "me/my-model")
    assert (code, "no such folder" in err) == (2, True)
