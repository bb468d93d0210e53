"""``opencse check``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

Run = Callable[..., tuple[int, str, str]]


def test_findings_are_printed_and_written(opencse: Run, tmp_path: Path) -> None:
    text, file = tmp_path / "text.txt", tmp_path / "check.json"
    text.write_text("The kettle boils.\nSnow fell.\nThe kettle boils.\n")
    code, stdout, err = opencse("check", text, "--json", file)
    assert code == 0, err
    assert "duplicates  33.3%" in stdout
    assert "tokens per word" not in stdout
    assert " per word, " in stdout
    assert json.loads(file.read_text())["rows"] == 3
