"""Columns, ids and values that cannot be meant: every command that takes them refuses in one line, exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import Run
from opencse.search.index import Index
from opencse.search.rows import IndexRow

GRADED = "sentence1,sentence2,score\nA cat.,A dog.,0.5\nRain.,Snow.,3\nTea.,Milk.,1\n"
CASES = {
    "train graded": (
        "train graded.csv --columns sentence1,sentence2,score --out new --dev none",
        "choose a recipe that learns from it",
    ),
    "train twice": ("train graded.csv --columns sentence1,sentence1 --out new --dev none", "named twice"),
    "pretrain twice": ("pretrain graded.csv --columns sentence1,sentence1 --out new", "named twice"),
    "build twice": ("index build new opencse-mini graded.csv --fields sentence1,sentence1", "named twice"),
    "add twice": ("index add ix graded.csv --fields sentence1,sentence1", "named twice"),
    "build ids": ("index build new opencse-mini ids.csv --fields text --id name", "line 4: the id 'a' is also that of"),
    "add ids": ("index add ix ids.csv --fields text --id name", "line 4: the id 'a' is also that of"),
    "add inf": ("index add ix inf.csv --fields text --metadata n", "line 3: column 'n' holds 'inf'"),
    "language": ("index build new opencse-mini ids.csv --fields text --language klingon", "no stems for the language"),
    "keep ids": ("evaluate opencse-mini --data . --keep-identical-ids", "is for retrieval"),
    "train keep ids": ("train ids.csv --columns text --out new --dev none --keep-identical-ids", "folder of queries"),
    **{
        f"{command} {value}": (f"index {command} ix {asked} --where n{value}", "holds numbers")
        for command, asked in (("query", "tea"), ("delete", ""))
        for value in ("=nan", "==inf", "!=-inf", ">1e999", "=x")
    },
}


@pytest.mark.parametrize("name", list(CASES))
def test_it_is_refused_in_a_line(name: str, tmp_path: Path, opencse: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from opencse.encoder.encoder import SentenceEncoder

    monkeypatch.chdir(tmp_path)
    Path("graded.csv").write_text(GRADED, encoding="utf-8")
    Path("ids.csv").write_text("name,text\na,One.\nb,Two.\na,Three.\n", encoding="utf-8")
    Path("inf.csv").write_text("n,text\n1,One.\ninf,Two.\n2,Three.\n", encoding="utf-8")
    rows = [IndexRow("One.", "x", {"n": 1}), IndexRow("Two.", "y", {"n": None})]
    Index.build("ix", rows, SentenceEncoder.load(device="cpu"), model="opencse-mini").close()
    line, expected = CASES[name]
    code, _, err = opencse(*line.split())
    assert code == 2
    assert expected in err
    assert len(err.strip().splitlines()[-1]) < 1_500
    assert "Traceback" not in err
    assert not Path("new").exists()
    with Index.open("ix") as index:
        assert len(index) == 2
