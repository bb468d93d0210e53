"""The demo, whole, as a newcomer runs it."""

from __future__ import annotations

import csv
import io
import re
import sys
from pathlib import Path

import pytest
from markupsafe import escape

from opencse import SentenceEncoder
from opencse.adapting.holdout import normalised
from opencse.api.demo import EXAMPLES, split_sample
from opencse.cli import main
from opencse.evaluation import read_scored_pairs
from opencse.runs.next_steps import first_steps
from opencse.text import sample


@pytest.mark.slow
def test_the_demo_helps_and_writes_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["opencse", "demo", "--out", str(tmp_path / "demo")])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    printed = capsys.readouterr().out
    names = ("before", "raw text alone", "pairs")
    rows = {name: re.search(rf"^{name}\s+([\d.]+)\s+([\d.]+)", printed, re.MULTILINE) for name in names}
    assert all(rows.values()), printed
    graded, found = ({name: float(row[column]) for name, row in rows.items() if row} for column in (1, 2))
    assert graded["pairs"] > graded["before"] - 3, "the start is good on these; training must not spoil it"
    assert graded["raw text alone"] > graded["before"] - 5
    assert found["raw text alone"] > found["before"]
    assert found["pairs"] > found["before"] + 5
    assert "general questions watch" not in printed, "they are the sample's own pairs, which were trained on"
    page = (tmp_path / "demo" / "report.html").read_text()
    assert "general questions" not in page
    for _, commands in first_steps():
        for command in commands.splitlines():
            assert command in printed
            assert str(escape(command)) in page
    assert page.count("<svg") == 5
    for text in (*EXAMPLES, "raw text alone"):
        assert text in page
    assert not re.search(r'(src|href)="http', page), "the page needs another file"
    assert SentenceEncoder.load(tmp_path / "demo" / "encoder").encode(["a"]).shape == (1, 448)


def test_what_the_demo_evaluates_on_is_not_trained_on() -> None:
    """Texts, pairs and questions: none of those evaluated is in the text or the pairs that are written for training."""
    parts = split_sample()
    pairs = [text for row in csv.reader(io.StringIO(parts.pairs.decode())) for text in row]
    trained = {normalised(text) for text in (*parts.text.splitlines(), *pairs)}
    graded = read_scored_pairs(sample.TEST)
    asked = [text for query in parts.queries for text in query]
    assert len(parts.queries) > 100
    assert len(trained) > 4_000
    evaluated = {normalised(text) for text in (*asked, *EXAMPLES, *graded.first, *graded.second)}
    assert trained & evaluated == set()
    whole = {normalised(line) for line in sample.TRAIN.read_text().splitlines() if line}
    assert {normalised(answer) for _, answer in parts.queries} <= whole, "what is asked for is among what is searched"


def test_the_demo_never_removes_a_folder_that_is_not_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").write_text("years of work")
    monkeypatch.setattr(sys, "argv", ["opencse", "demo", "--out", str(tmp_path / "precious")])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert "is not the folder of a demo" in capsys.readouterr().err
    assert (tmp_path / "precious" / "thesis.txt").is_file()
