"""Columns, ids and values that cannot be meant: every command that takes them refuses in one line, exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import Run

GRADED = "sentence1,sentence2,score\nA cat.,A dog.,0.5\nRain.,Snow.,3\nTea.,Milk.,1\n"
CASES = {
    "train graded": (
        "train graded.csv --columns sentence1,sentence2,score --out new --dev none",
        "choose a recipe that learns from it",
    ),
    "train twice": ("train graded.csv --columns sentence1,sentence1 --out new --dev none", "named twice"),
    "build twice": ("index build new opencse-mini graded.csv --fields sentence1,sentence1", "named twice"),
    "language": ("index build new opencse-mini ids.csv --fields text --language klingon", "no stems for the language"),
    "keep ids": ("evaluate opencse-mini --data . --keep-identical-ids", "is for retrieval"),
    "train keep ids": ("train ids.csv --columns text --out new --dev none --keep-identical-ids", "folder of queries"),
}


@pytest.mark.parametrize("name", list(CASES))
def test_it_is_refused_in_a_line(name: str, tmp_path: Path, opencse: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("graded.csv").write_text(GRADED, encoding="utf-8")
    Path("ids.csv").write_text("name,text\na,One.\nb,Two.\na,Three.\n", encoding="utf-8")
    line, expected = CASES[name]
    code, _, err = opencse(*line.split())
    assert code == 2
    assert expected in err
    assert "Traceback" not in err
    assert not Path("new").exists()
