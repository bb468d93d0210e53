"""The simulation of a large job agrees with what can be calculated, and reacts to what it is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from helpers import script

pytest.importorskip("simpy")


@pytest.fixture(scope="module")
def plan() -> ModuleType:
    return script(Path(__file__).parents[1] / "benchmarks" / "plan.py")


def easy(plan: ModuleType, **given: float) -> Any:
    """A job in which nothing but the workers takes time, and none of them fails, unless told otherwise."""
    free = {"piece": 10, "rate": 1, "failures": 0, "load": 0, "check": 1e9, "reader": 1e9, "note": 0}
    return plan.Plan(**(free | given))


def test_without_failures_equal_workers_take_what_division_gives(plan: ModuleType) -> None:
    even = easy(plan, sentences=1_000, workers=20, load=7, spread=0, slow=0)
    assert plan.bound(even).workers == pytest.approx(7 + 1_000 / 20)
    found = plan.simulate(even)
    assert found.seconds == pytest.approx(57, abs=1e-3)
    assert (found.done, found.failures, found.lost) == (100, 0, 0.0)


def test_failures_cost_what_the_formula_says(plan: ModuleType) -> None:
    calm = easy(plan, sentences=6e5, piece=100, workers=50, away=60, load=10)
    times = []
    for failures in (0.0, 6.0, 60.0):  # the last come every minute, and a piece takes 100 s
        one = replace(calm, failures=failures)
        limit, found = plan.bound(one), plan.simulate(one)
        assert found.done == one.pieces
        assert found.seconds == pytest.approx(limit.least, rel=0.03)
        assert (found.failures > 0) is (failures > 0)
        times.append(found.seconds)
    assert times[1] > 1.1 * times[0]
    assert times[2] > 2 * times[1]
    assert plan.simulate(replace(calm, failures=6.0)) == plan.simulate(replace(calm, failures=6.0)), "by its seed"
    assert plan.simulate(replace(calm, failures=6.0, seed=1)).seconds != times[1]


def test_stragglers_cost_their_last_piece(plan: ModuleType) -> None:
    one = easy(plan, sentences=1_000, workers=50, slow=0.1, slowness=10)
    limit, found = plan.bound(one), plan.simulate(one)
    assert limit.last > 80
    assert limit.least < 25
    assert limit.least + limit.last / 2 < found.seconds <= limit.least + limit.last


def test_reader_and_coordinator_may_be_the_narrowest(plan: ModuleType) -> None:
    one = easy(plan, sentences=1e4, workers=500, reader=100)
    assert plan.bound(one).narrowest == "reader"
    assert plan.simulate(one).seconds == pytest.approx(100, rel=0.35)
    noted = replace(one, check=1e9, reader=1e9, note=0.5)
    assert plan.bound(noted).narrowest == "coordinator"
    assert plan.simulate(noted).seconds == pytest.approx(500, rel=0.1)
    assert "(coordinator; " in plan.told(noted)[1]
    checked = replace(one, check=50)
    assert plan.bound(checked).least == pytest.approx(plan.bound(one).least + 200)
    assert plan.simulate(checked).seconds == pytest.approx(plan.simulate(one).seconds + 200, rel=0.01)
