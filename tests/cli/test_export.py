"""``opencse export``."""

from __future__ import annotations

from pathlib import Path

from helpers import Run


def test_columns_need_a_corpus(opencse: Run, tmp_path: Path) -> None:
    code, _, err = opencse("export", "static", "opencse-mini", "--out", tmp_path / "t", "--columns", "body")
    assert (code, "--columns needs --corpus" in err) == (2, True)


def test_pairs_need_int8(opencse: Run, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("1\ta\tb\n")
    code, _, err = opencse("export", "onnx", "opencse-mini", "--out", tmp_path / "o", "--pairs", pairs)
    assert (code, "--pairs needs --int8" in err) == (2, True)
