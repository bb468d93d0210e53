"""The page of all systems is what its scores make."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import helpers

ROOT = Path(__file__).parents[1]
script = helpers.script_of_docs("build_family")


def test_the_page_is_up_to_date(script: ModuleType) -> None:
    scores = json.loads(script.RECORD.read_text(encoding="utf-8"))
    assert script.PAGE.read_text(encoding="utf-8") == script.page(scores), "run python docs/build_family.py"
    study = tomllib.loads((ROOT / "benchmarks" / "studies" / "family.toml").read_text(encoding="utf-8"))
    assert set(scores["sts"]["scores"]) <= set(study["recipes"])
    assert "simcse" in scores["sts"]["scores"]


def _scores(by_recipe: dict[str, dict[int, float]]) -> dict[str, Any]:
    one = {"start": 40.0, "environment": {"torch": "2"}, "date": "2026-01-01"}
    return {"machine": "a machine", "sts": {**one, "scores": by_recipe}, "dev": {**one, "scores": by_recipe}}


def test_systems_are_ranked_and_compared_with_simcse(script: ModuleType) -> None:
    page = script.page(
        _scores({
            "simcse": {42: 60.0, 43: 60.2, 44: 60.1},
            "simcse++": {42: 63.0, 43: 63.3, 44: 63.1},
            "esimcse": {42: 57.0, 43: 57.1, 44: 57.2},
            "sscl": {42: 63.0, 43: 63.1},
        })
    )  # fmt: skip
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == ["simcse++", "simcse", "esimcse"]
    assert "| 78.05 | 63.13 ± 0.15 | +3.03 \\* |" in rows[0]
    assert "-3.00 \\* |" in rows[2]
    assert "Worse: `esimcse`" in page
    assert "`sscl`" in page[page.index("Not measured yet") :]
    assert "better than `simcse`: `simcse++` (p < .05" in page


def test_one_seed_shows_no_difference(script: ModuleType) -> None:
    page = script.page(_scores({"simcse": {42: 60.0}, "simcse++": {42: 63.0}}))
    assert "with one seed no difference is tested" in page
    assert "p < .05" not in page
    assert "| +3.00 |" in page
