"""The page of all systems is what its scores make."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import helpers

ROOT = Path(__file__).parents[1]
script = helpers.script_of_docs("build_family")


def test_the_page_is_up_to_date(script: ModuleType) -> None:
    scores = json.loads(script.RECORD.read_text(encoding="utf-8"))
    assert script.PAGE.read_text(encoding="utf-8") == script.page(scores), "run python docs/build_family.py"
    assert set(scores["mean"]["scores"]) <= set(script.systems_of_the_studies())
    assert "simcse" in scores["mean"]["scores"]


def _scores(by_the_mean: dict[str, dict[int, float]], at_cls: dict[str, dict[int, float]]) -> dict[str, Any]:
    one = {"start": 40.0, "environment": {"torch": "2"}, "date": "2026-01-01"}
    machines = {"mean": "a machine", "cls": "another"}
    return {"machines": machines, "mean": {**one, "scores": by_the_mean}, "cls": {**one, "scores": at_cls}}


def test_systems_are_ranked_and_compared_with_simcse(script: ModuleType) -> None:
    page = script.page(
        _scores(
            {
                "simcse": {42: 60.0, 43: 60.2, 44: 60.1},
                "simcse++": {42: 63.0, 43: 63.3, 44: 63.1},
                "esimcse": {42: 57.0, 43: 57.1, 44: 57.2},
                "sscl": {42: 61.0, 43: 61.5},
                "none of the studies": {42: 90.0},
            },
            {"simcse": {42: 50.0, 43: 50.1, 44: 50.2}, "sscl": {42: 47.0, 43: 47.2, 44: 47.1}, "tsdae": {42: 70.0}},
        )
    )
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == ["simcse++", "sscl", "simcse", "esimcse", "tsdae"]
    assert "| 78.05 | 3 | 63.13 ± 0.15 | +3.03 \\* |  |  |  |" in rows[0]
    assert "| 77.80 | 2 | 61.25 ± 0.35 | +1.15 | 3 | 47.10 ± 0.10 | -3.00 \\* |" in rows[1], "two seeds are not tested"
    assert "-3.00 \\* |" in rows[3]
    assert "|  |  |  | 1 | 70.00 | +20.00 |" in rows[4]
    answer = page[page.index("**Answer.**") : page.index("| system |")]
    assert "by the mean, of 2 systems" in answer
    assert "better than `simcse`: `simcse++`; worse: `esimcse` (p < .05 after Holm)." in answer
    assert "at [CLS], of 1 system with" in answer
    assert "`diffcse`" in page[page.index("Not measured yet") :]


def test_one_seed_shows_no_difference(script: ModuleType) -> None:
    page = script.page(_scores({"simcse": {42: 60.0}, "simcse++": {42: 63.0}}, {"simcse": {42: 50.0}}))
    assert "of 0 systems" in page
    assert "With one seed or two nothing is tested." in page
    assert "| +3.00 |" in page
