"""The notebook runs from its first cell to its last, offline, in an empty folder, and is kept without outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebook.ipynb"
CELLS = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
CODE = ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code"]


def test_no_output_is_kept() -> None:
    assert [cell for cell in CELLS if cell.get("outputs") or cell.get("execution_count")] == []


@pytest.mark.slow
@pytest.mark.usefixtures("not_drawn")
def test_every_cell_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    printed = []
    for number, cell in enumerate(CODE):
        exec(compile(cell, f"cell {number}", "exec"), names)
        printed.append(capsys.readouterr().out)
    checked, adapted, evaluated, found = printed
    assert "sentences" in checked
    assert adapted.splitlines()[0] in ("best", "start", "given")
    assert evaluated.count("nDCG@10") == 2
    assert "contour" in found.lower() or "map" in found.lower(), "the search finds what was asked for"
    assert (tmp_path / "my-model" / "modules.json").is_file()
