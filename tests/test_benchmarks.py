"""The scripts of benchmarks/: collections and models that they make, records that they write, pages drawn from them."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
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


BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


ROWS = ("step", "encode", "layers", "loss", "start_up", "first_answer", "loading")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The benchmark, its work replaced by a clock that goes on: both sides take 50 ms, and as much is stored."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    quick: Any = importlib.import_module("quick")
    paired: Any = importlib.import_module("rows").paired

    now = 0.0

    def work(seconds: float) -> None:
        nonlocal now
        now += seconds

    def timed(name: str) -> Callable[..., Any]:
        def ours(turn: int) -> None:
            work(seconds.get(name, 0.05))

        return lambda *_: paired(name, ours, lambda turn: work(0.05), size=1, unit="", turns=3, clock=lambda: now)

    seconds: dict[str, float] = {}
    for name in ROWS:
        monkeypatch.setattr(quick, name, timed(name))
    monkeypatch.setattr(quick, "shaped", lambda shape, folder: str(folder))
    monkeypatch.setattr(quick, "STORED", tmp_path / "quick.json")
    monkeypatch.setattr(quick.torch, "set_num_threads", lambda threads: None)
    monkeypatch.setattr(sys, "argv", ["quick.py"])
    quick.STORED.write_text(json.dumps(dict.fromkeys(ROWS, 1.0)))
    return quick, seconds


def test_what_got_slower_is_named(quick: Any, capsys: pytest.CaptureFixture[str]) -> None:
    quick[1]["encode"] = 0.15
    with pytest.raises(SystemExit) as ended:
        quick[0].main()
    assert ended.value.code == 1
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("slower")]
    assert len(told) == 1
    assert told[0].startswith("slower: encode: 0.")


def test_every_measured_row_has_a_stored_ratio() -> None:
    script = (BENCHMARKS / "quick.py").read_text(encoding="utf-8")
    stored = json.loads((BENCHMARKS / "quick.json").read_text(encoding="utf-8"))
    functions = script.count(" = paired(") + script.count("return paired(")
    answers = script.split("FIRST_ANSWERS = {")[1].split("\n}")[0].count("compared with Python")
    assert answers == 3
    assert len(stored) == functions - 1 + answers
    assert [name for name in stored if f'"{name}"' not in script] == []
