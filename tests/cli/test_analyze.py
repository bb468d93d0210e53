"""``opencse analyze``."""

from __future__ import annotations

from pathlib import Path

from helpers import Run


def test_a_query_needs_a_text(opencse: Run, tmp_path: Path) -> None:
    code, _, err = opencse("analyze", "opencse-mini", "--query", "A dog barks.", "--out", tmp_path / "page")
    assert code == 2
    assert "--query needs --text FILE" in err
    assert not (tmp_path / "page" / "report.html").exists()
