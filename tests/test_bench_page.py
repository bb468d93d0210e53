"""The table of docs/results/speed.md is built from its records, by benchmarks/page.py."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results" / "speed.md"
RECORDS = sorted((PAGE.parent / "records").glob("speed-[0-9]*.json"))


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("page")


def test_the_table_is_up_to_date(page: Any) -> None:
    records = [json.loads(path.read_text(encoding="utf-8")) for path in RECORDS]
    assert len(records) == 5
    text = PAGE.read_text(encoding="utf-8")
    assert page.fill(text, records) == text, "run benchmarks/page.py (the command is on the page)"
    assert all(path.name in text for path in RECORDS)


def test_the_first_row_of_a_name_counts_and_a_missing_one_is_a_dash(page: Any) -> None:
    work = "training step, random BERT mini, {} compared with sentence-transformers float32"
    rows = [{"name": work.format("bf16"), "ratio": 3.0}, {"name": work.format("float32"), "ratio": 2.0}]
    fast = {"processor": "A", "trains_in": "bf16", "rows": [*rows, rows[0] | {"ratio": 9.0}]}
    slow = {"processor": "B", "trains_in": "float32", "rows": rows[1:]}
    lines = page.table([fast, slow]).splitlines()
    assert lines[0] == "| opencse compared with | A | B |"
    assert lines[2].endswith("as each trains by default | 3.00x | 2.00x |")
    assert lines[3] == "| both in bf16 | - | - |"
    assert lines[4] == "| both in float32 | 2.00x | 2.00x |"
