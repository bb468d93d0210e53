"""``opencse train``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Run = Callable[..., tuple[int, str, str]]


def test_the_plan_of_a_dry_run(opencse: Run, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("The kettle boils.\nSnow fell on the hills.\nThe train is late.\nA dog barks.\n" * 3)
    code, stdout, err = opencse("train", text, "--out", tmp_path / "out", "--seed", 7, "--dev", "none", "--dry-run")
    assert code == 0, err
    assert "12 rows of 1" in stdout
    assert not (tmp_path / "out").exists()
