"""``opencse reproduce``."""

from __future__ import annotations

from pathlib import Path

from helpers import Run


def test_a_recipe_without_published_scores_names_presets_that_have_some(opencse: Run, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("One.\nTwo.\n")
    code, _, err = opencse("reproduce", "simcse", text, "--out", tmp_path / "row", "--data", tmp_path)
    assert code == 2
    assert "no published scores are known" in err
    assert "bert-base" in err


def test_seeds_are_numbers_or_a_range(opencse: Run, tmp_path: Path) -> None:
    code, _, err = opencse(
        "reproduce", "simcse:bert-base", "text.txt", "--out", tmp_path / "row", "--data", tmp_path, "--seeds", "5-1"
    )
    assert (code, "is neither a number nor a range" in err) == (2, True)
