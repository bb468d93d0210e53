"""What the package computes is what it computed when it was recorded, but for the rounding of another processor."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from recorded.record import STORED, Record, differences, masks, names, read, recorder
from recorded.suites import CASES
from recorded.training import runs

STORED_NAMES = names()
LOSSES = {"relative": 1e-3, "absolute": 1e-5}
LOOSE = {
    "gaussian-sampling:gmm": {"relative": 0.2, "absolute": 1e-5},
    "denosent": {"relative": 1e-3, "absolute": 5e-3},
}
"""Where rounding can put a sentence into another cluster, or choose another token."""
SCORES = {"relative": 0.0, "absolute": 0.05}


@pytest.fixture(scope="module")
def stored() -> Record:
    return read(STORED)


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    return recorder(tmp_path_factory.mktemp("recorded"))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(runs()))
def test_a_run_is_as_recorded(name: str, stored: Record, record: Callable[[str], dict[str, Any]]) -> None:
    if stored["machine"]["masks"] != masks():
        pytest.skip("this processor draws other dropout masks from the same seed than the one that recorded")
    assert not differences({name: stored[name]}, {name: record(name)}, **LOOSE.get(name, LOSSES))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CASES))
def test_a_suite_scores_as_recorded(name: str, stored: Record, record: Callable[[str], dict[str, Any]]) -> None:
    assert not differences({name: stored[name]}, {name: record(name)}, **SCORES)


def test_all_is_recorded(stored: Record) -> None:
    assert set(stored) == {"machine", *STORED_NAMES}
    for name in runs():
        losses = stored[name]["loss"]
        assert losses[0] is None
        assert len(set(losses)) > len(losses) // 2, f"{name} learns"
        assert all(norm > 0 for norm in stored[name]["gradient_norm"][1:])
    assert len({json.dumps(stored[name]["loss"]) for name in runs()}) > len(runs()) - 3, "runs differ from each other"


@pytest.mark.parametrize("tolerance", [{}, LOSSES])
def test_one_changed_number_is_found(stored: Record, tolerance: dict[str, float]) -> None:
    changed = copy.deepcopy(stored)
    assert differences(stored, changed, **tolerance) == []
    changed["simcse"]["loss"][7] *= 1.01
    changed["sts, tiny"]["sts12.pearson.value"] += 1
    del changed["sscl"]["gradient_norm"], changed["adapt"]
    changed["esimcse"]["loss"].pop()
    told = differences(stored, changed, **tolerance)
    assert len(told) == 5
    for wanted in (
        r"adapt: only before",
        r"simcse, loss, step 7: [\d.]+ before, [\d.]+ now",
        r"sts, tiny, sts12\.pearson\.value: \S+ before, \S+ now",
        r"sscl, gradient_norm: only before",
        r"esimcse, loss: 21 steps before, 20 now",
    ):
        assert any(re.fullmatch(wanted, line) for line in told), (wanted, told)
