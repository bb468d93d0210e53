"""``opencse doctor``."""

from __future__ import annotations

from helpers import Run


def test_versions_and_no_trouble(opencse: Run) -> None:
    code, stdout, err = opencse("doctor")
    assert code == 0, err
    assert "torch" in stdout
    assert "opencse-mini" in stdout
    assert stdout.rstrip().endswith("no trouble found")
