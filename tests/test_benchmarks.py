"""The scripts of benchmarks/: collections and models that they make, records that they write, pages drawn from them."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


PAGE = ROOT / "docs" / "results" / "speed.md"


SPEED_RECORDS = sorted((PAGE.parent / "records").glob("speed-[0-9]*.json"))


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("page")


def test_the_table_is_up_to_date(page: Any) -> None:
    records = [json.loads(path.read_text(encoding="utf-8")) for path in SPEED_RECORDS]
    assert len(records) == 5
    text = PAGE.read_text(encoding="utf-8")
    assert page.fill(PAGE, records) == text, "run benchmarks/page.py (the command is on the page)"
    assert all(path.name in text for path in SPEED_RECORDS)


@pytest.mark.parametrize("written", ["scale", "search"])
def test_the_table_of_peers_is_up_to_date(page: Any, written: str) -> None:
    name = written.replace("scale", "serving")
    path, record = PAGE.with_name(f"{written}.md"), PAGE.parent / "records" / f"{name}-peers.json"
    text = path.read_text(encoding="utf-8")
    assert text.count(page.BEGIN) == text.count(page.END) == 1
    assert f"records/{name}-peers.json" in text
    if record.exists():
        filled = page.fill(path, [json.loads(record.read_text(encoding="utf-8"))])
        assert filled == text, "run benchmarks/page.py (the command is on the page)"
    else:
        assert f"{page.BEGIN}\n\nNot measured yet.\n\n{page.END}" in text


BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def test_every_measured_row_has_a_stored_ratio() -> None:
    script = (BENCHMARKS / "quick.py").read_text(encoding="utf-8")
    stored = json.loads((BENCHMARKS / "quick.json").read_text(encoding="utf-8"))
    functions = script.count(" = paired(") + script.count("return paired(")
    answers = script.split("FIRST_ANSWERS = {")[1].split("\n}")[0].count("compared with Python")
    assert answers == 3
    assert len(stored) == functions - 1 + answers
    assert [name for name in stored if f'"{name}"' not in script] == []
