"""The page of what `adapt` gains is what its runs make."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import helpers

script = helpers.script_of_docs("build_adapt")


def test_the_page_is_up_to_date(script: ModuleType) -> None:
    runs = json.loads(script.RECORD.read_text(encoding="utf-8"))
    assert script.PAGE.read_text(encoding="utf-8") == script.page(runs), "run python docs/build_adapt.py"
    seeds = [run["seed"] for run in runs if (run["model"], run["pairs"]) == ("opencse-mini", "")]
    assert seeds.count(42) == seeds.count(None), "every collection has a run"


def _run(seed: int | None, vectors: list[float], pairs: str = "", sts: float = 67.0) -> dict[str, Any]:
    """A run as benchmarks/adapt.py writes it: forty queries whose scores are ``vectors``, in turn."""
    both = [score + (4.5 if number % 4 < 2 else 5.5) for number, score in enumerate(vectors * 20)]
    by_query = {"bm25": [40.0] * 40, "ndcg@10": vectors * 20, "hybrid": both}
    after: dict[str, Any] = {name: sum(scores) / 40 for name, scores in by_query.items()}
    run: dict[str, Any] = {
        "collection": "scifact",
        "model": "opencse-mini",
        "seed": seed,
        "pairs": pairs,
        "date": "2026-01-01",
    }
    run |= {"environment": {"commit": "abc", "torch": "2"}, "after": {**after, "sts": sts, "by_query": by_query}}
    return run | ({} if seed is None else {"kept": "best", "seconds": 60.0, "scores": {"0": 50.0, "50": 58.0}})


@pytest.fixture
def runs(script: ModuleType, tmp_path: Path) -> list[dict[str, Any]]:
    made = [
        _run(None, [44.0, 46.0], sts=68.0),
        _run(42, [54.0, 56.0]),
        _run(43, [56.0, 58.0], sts=67.5),
        _run(42, [52.0, 58.0], pairs="all"),
        _run(43, [43.0, 45.0], pairs="all"),
    ]
    (tmp_path / "records").mkdir()
    for number, run in enumerate(made):
        (tmp_path / "records" / f"{number}.json").write_text(json.dumps(run))
    gathered: list[dict[str, Any]] = json.loads(json.dumps(script.gather(tmp_path, "a machine")))
    return gathered


def test_runs_are_gathered_with_differences_over_queries(runs: list[dict[str, Any]]) -> None:
    start, first, _, with_pairs, _ = runs
    assert "by_query" not in start["after"]
    assert start["differences"] == {"hybrid - better part": [5.0, 4.84, 5.16]}
    assert first["differences"]["ndcg@10 - start"] == [10.0], "queries that all gain the same have no interval"
    gain, low, high = with_pairs["differences"]["ndcg@10 - start"]
    assert low < gain == 10.0 < high, "queries that gain differently have an interval"
    assert first["machine"] == "a machine"
    assert first["commit"] == "abc"


def test_tables_are_means_over_seeds(script: ModuleType, runs: list[dict[str, Any]]) -> None:
    table = script.table(runs, "opencse-mini")
    assert "| SciFact | 40.00 | 45.00 | 50.00 | 56.00 ± 1.41 | 61.00 ± 1.41 | 49.50 ± 7.78 | 54.50 ± 7.78 |" in table
    text = script.gains(runs, "opencse-mini", "")
    assert (text["mean"], text["least"], text["seeds"], text["sts"], text["sts_most"]) == (
        "11.0", "10.0", 2, "0.8", "1.00",
    )  # fmt: skip
    assert script.gains(runs, "another model", "") == {}
    assert script.below_text(runs, "opencse-mini") == ["SciFact (-6.5)"]


def test_verdicts_are_compared_with_the_test_queries(script: ModuleType, runs: list[dict[str, Any]]) -> None:
    text, pairs = (script.agreement(runs, which) for which in ("", "all"))
    assert (text["runs"], text["kept"], text["wrong"], text["own"], text["true"]) == (2, 2, 0, "8.0", "11.0")
    assert (pairs["wrong"], pairs["better"], pairs["most"]) == (1, 1, "9.0")
    assert script.agreement([], "") == {}
    both = script.hybrid(runs)
    assert (both["models"], both["mean"], both["above"], both["below"]) == (5, "5.0", 5, 0)


def test_a_machine_is_named_once_with_its_commits(script: ModuleType, runs: list[dict[str, Any]]) -> None:
    others = [run | {"commit": "def"} for run in runs] + [run | {"machine": "another"} for run in runs]
    assert script.made_on([*runs, *others]) == "a machine (commit abc, def; torch 2); another (commit abc; torch 2)"
