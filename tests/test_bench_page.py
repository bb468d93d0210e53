"""The tables of docs/results/speed.md, serving.md and search.md are built from their records, by benchmarks/page.py."""

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
    assert page.fill(PAGE, records) == text, "run benchmarks/page.py (the command is on the page)"
    assert all(path.name in text for path in RECORDS)


@pytest.mark.parametrize("name", ["serving", "search"])
def test_the_table_of_peers_is_up_to_date(page: Any, name: str) -> None:
    path, record = PAGE.with_name(f"{name}.md"), PAGE.parent / "records" / f"{name}-peers.json"
    text = path.read_text(encoding="utf-8")
    assert text.count(page.BEGIN) == text.count(page.END) == 1
    assert f"records/{name}-peers.json" in text
    if record.exists():
        filled = page.fill(path, [json.loads(record.read_text(encoding="utf-8"))])
        assert filled == text, "run benchmarks/page.py (the command is on the page)"
    else:
        assert f"{page.BEGIN}\n\nNot measured yet.\n\n{page.END}" in text


def test_servers_are_compared_by_medians_and_by_ratios_within_a_turn(page: Any) -> None:
    ours, other = ("opencse serve", ""), ("infinity-emb", "torch")
    rates = {(*ours, 1): (50, 70), (*ours, 64): (300, 200), (*other, 1): (40, 60), (*other, 64): (100, 100)}
    rows = [
        {"turn": turn, "server": server, "settings": settings, "clients": clients, "rate": both[turn], "p50": 2.0,
         "p99": 8.0}
        for (server, settings, clients), both in rates.items()
        for turn in (0, 1)
    ]  # fmt: skip
    lines = page.TABLES["serving"]([{"rows": rows}]).splitlines()
    assert lines[2:] == [
        "| opencse serve | defaults | 60 | 2.0 | 8.0 | 250 | 2.0 | 8.0 |  |",
        "| infinity-emb | torch | 50 | 2.0 | 8.0 | 100 | 2.0 | 8.0 | 2.50x |",
    ]


def test_searches_say_what_was_built_otherwise(page: Any) -> None:
    speed = {"ours": 1_500.4, "ratio": 0.95}
    row = {
        "rows": 1_000_000, "kind": "hnsw", "build_seconds": 125.0, "breadth_build": 40, "one": speed,
        "together": speed, "bytes": {"opencse": 3_300e6, "faiss": 1_800e6}, "recall": {"opencse": 0.98, "faiss": 0.97},
    }  # fmt: skip
    lines = page.TABLES["search"]([{"rows": [row, row | {"breadth_build": 200}]}]).splitlines()
    cells = "125.0 s | 3,300 MB | 1,800 MB | 0.980 | 0.970 | 1,500 | 0.95x | 1,500 | 0.95x |"
    assert lines[2:] == [f"| 1,000,000 | hnsw (built with breadth 40) | {cells}", f"| 1,000,000 | hnsw | {cells}"]


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
