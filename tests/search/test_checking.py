"""The check of an index, which reads every file."""

from __future__ import annotations

import json
from pathlib import Path

from helpers import Run
from opencse.progress import Silent
from opencse.search.checking import check
from opencse.search.index import Index


def test_an_intact_index(index: Index, opencse: Run, tmp_path: Path) -> None:
    index.delete(["n1"])
    index.search(["cat"], hybrid=True)
    result = check(index.folder, Silent())
    assert (result.rows, result.faults, result.notes) == (4, (), ())
    code, out, _ = opencse("index", "check", index.folder, "--json", tmp_path / "c.json")
    assert (code, out) == (0, f"{index.folder}: intact, 4 rows\n")
    assert json.loads((tmp_path / "c.json").read_text())["faults"] == []
    assert opencse("index", "check", tmp_path / "nowhere")[0] == 2
