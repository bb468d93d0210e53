"""``opencse check``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers import Run


def test_findings_are_printed_and_written(opencse: Run, tmp_path: Path) -> None:
    text, file = tmp_path / "text.txt", tmp_path / "check.json"
    text.write_text("The kettle boils.\nSnow fell.\nThe kettle boils.\n")
    code, stdout, err = opencse("check", text, "--json", file)
    assert code == 0, err
    assert "duplicates  33.3%" in stdout
    assert "tokens per word" not in stdout
    assert " per word, " in stdout
    assert json.loads(file.read_text())["rows"] == 3


def test_standard_output_is_no_file_of_results(opencse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, stdout, err = opencse("check", "text.txt", "--json", "-")
    assert (code, stdout) == (2, "")
    assert "--json -: results are written to a file" in err
    assert not list(tmp_path.iterdir())
