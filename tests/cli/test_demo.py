"""The demo, whole, as a newcomer runs it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from markupsafe import escape

from opencse import SentenceEncoder
from opencse.cli import main
from opencse.commands.demo import EXAMPLES
from opencse.runs.report import first_steps


@pytest.mark.drawn
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
    assert "general English questions guard" not in printed, "they are the sample's own pairs, which were trained on"
    assert "graded pairs ask how similar two sentences are, and may lose a little" in " ".join(printed.split())
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
