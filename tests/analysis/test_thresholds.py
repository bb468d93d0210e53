"""Thresholds against trying every one; the interval against naive resampling."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fuzzing import examples
from opencse.analysis.thresholds import Threshold, at_precision, best_f1
from opencse.errors import UserError

Labelled = tuple[NDArray[np.float64], NDArray[np.bool_]]


def some(n: int = 120, *, ties: bool = False, seed: int = 0) -> Labelled:
    rng = np.random.default_rng(seed)
    alike = rng.random(n) < 0.4
    alike[:2] = True, False
    cosines = np.tanh(rng.normal(0.3 + 0.5 * alike, 0.4))
    return np.asarray(np.round(cosines, 1) if ties else cosines, dtype=np.float64), alike


def counts(cosines: list[float], alike: list[bool], threshold: float) -> tuple[int, int]:
    called = [label for cosine, label in zip(cosines, alike, strict=True) if cosine >= threshold]
    return sum(called), len(called)


def naive(cosines: list[float], alike: list[bool], wanted: float | None = None) -> float | None:
    """The cut below the distinct cosine that is best, the highest of equals, by trying each."""
    best, chosen = -1.0, None
    levels = sorted(set(cosines), reverse=True)
    for place, level in enumerate(levels):
        hits, called = counts(cosines, alike, level)
        value = 2 * hits / (called + sum(alike)) if wanted is None else hits * (hits / called >= wanted)
        if value > best and hits:
            best, chosen = value, place
    if chosen is None:
        return None
    return levels[chosen] if chosen + 1 == len(levels) else (levels[chosen] + levels[chosen + 1]) / 2


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_best_f1_is_found(ties: bool, seed: int) -> None:
    cosines, alike = some(ties=ties, seed=seed)
    found = best_f1(cosines, alike, resamples=5)
    assert found.cosine == pytest.approx(naive(cosines.tolist(), alike.tolist()), abs=1e-15)
    hits, called = counts(cosines.tolist(), alike.tolist(), found.cosine)
    precision, recall = hits / called, hits / alike.sum()
    f1 = 2 * precision * recall / (precision + recall)
    assert (found.precision, found.recall, found.f1) == pytest.approx((precision, recall, f1))
    assert (found.pairs, found.alike, found.rule, found.wanted) == (120, alike.sum(), "best_f1", None)
    assert 0.3 < found.f1 < 1


@pytest.mark.parametrize("wanted", [0.4, 0.6, 0.75])
@pytest.mark.parametrize("ties", [False, True])
def test_the_highest_recall_at_a_precision_is_found(wanted: float, ties: bool) -> None:
    cosines, alike = some(ties=ties)
    found = at_precision(cosines, alike, wanted, resamples=5)
    expected = naive(cosines.tolist(), alike.tolist(), wanted)
    assert found.cosine == pytest.approx(expected, abs=1e-15)
    assert found.precision >= wanted
    hits, called = counts(cosines.tolist(), alike.tolist(), found.cosine)
    assert (found.precision, found.recall) == pytest.approx((hits / called, hits / alike.sum()))
    assert (found.rule, found.wanted) == ("precision", wanted)
    for level in cosines:
        hits, called = counts(cosines.tolist(), alike.tolist(), level)
        assert hits / called < wanted or hits / alike.sum() <= found.recall


def test_known_answers() -> None:
    cosines, alike = np.array([0.9, 0.8, 0.4, 0.2]), np.array([True, True, False, False])
    found = best_f1(cosines, alike, resamples=20)
    assert (found.cosine, found.precision, found.recall, found.f1) == pytest.approx((0.6, 1, 1, 1))
    mixed = np.array([True, False, True, False])
    assert best_f1(cosines, mixed, resamples=1).cosine == pytest.approx(0.3)
    strict = at_precision(cosines, mixed, 1.0, resamples=1)
    assert (strict.cosine, strict.recall) == pytest.approx((0.85, 0.5))
    assert best_f1(cosines, alike[::-1].copy(), resamples=1).cosine == 0.2, "below the lowest there is no middle"
    # 11/20 is what 0.55 reads as: no rounding may push it below the wanted precision.
    levels, twenty = np.linspace(1, 0, 20), np.arange(20) < 11
    exact = at_precision(levels, twenty[::-1].copy(), 0.55, resamples=1)
    assert exact.precision == 0.55
    assert exact.recall == 1


def test_interval_is_of_naive_resamples() -> None:
    cosines, alike = some(60, ties=True)
    found = best_f1(cosines, alike, resamples=100, seed=7)
    rng = np.random.default_rng(7)
    places = []
    for _ in range(100):
        drawn = rng.integers(0, 60, size=60)
        place = naive(cosines[drawn].tolist(), alike[drawn].tolist())
        places.append(math.inf if place is None else place)
    places.sort()
    assert found.interval == pytest.approx((places[2], places[97]), abs=1e-15)  # 99 * 0.025 = 2.475, down; up
    assert found.interval is not None
    assert found.interval[0] < found.cosine < found.interval[1]
    assert best_f1(cosines, alike, resamples=100, seed=7) == found
    assert best_f1(cosines, alike, resamples=100, seed=8).interval != found.interval
    assert Threshold.model_validate_json(found.model_dump_json()) == found


def test_interval_has_no_end_where_resamples_reach_no_threshold() -> None:
    cosines = np.linspace(1, 0, 30)
    alike = np.arange(30) % 3 == 0
    found = at_precision(cosines, alike, 1.0, resamples=200)
    assert found.recall == pytest.approx(0.1)
    assert found.interval is None
    rare = best_f1(cosines, np.arange(30) == 4, resamples=200)
    assert rare.interval is None, "a third of the resamples have no pair that is alike"


@examples(30)
@given(st.integers(2, 25), st.integers(0, 999), st.floats(0.05, 1))
def test_any_labels(n: int, seed: int, wanted: float) -> None:
    cosines, alike = some(n, ties=True, seed=seed)
    rows = cosines.tolist(), alike.tolist()
    assert best_f1(cosines, alike, resamples=2).cosine == pytest.approx(naive(*rows), abs=1e-15)
    expected = naive(*rows, wanted)
    highest = max(hits / called for hits, called in (counts(*rows, level) for level in rows[0]))
    if highest < wanted:
        with pytest.raises(UserError, match=f"the highest is {highest:.3f}"):
            at_precision(cosines, alike, wanted, resamples=2)
    else:
        assert at_precision(cosines, alike, wanted, resamples=2).cosine == pytest.approx(expected, abs=1e-15)


def test_neighbours_in_float64_keep_the_cut() -> None:
    low = 0.5
    high = np.nextafter(low, 1)
    found = best_f1(np.array([high, low]), np.array([True, False]), resamples=1)
    assert found.cosine == high
    assert found.precision == 1


def test_wrong_input_is_refused() -> None:
    cosines, alike = some(6)
    for kind in (np.zeros(6, bool), np.ones(6, bool)):
        with pytest.raises(UserError, match="of 6 labelled pairs are similar; a threshold needs both kinds"):
            best_f1(cosines, kind)
    for precision in (0.0, 1.1, math.nan):
        with pytest.raises(UserError, match="above 0 and at most 1"):
            at_precision(cosines, alike, precision)
    with pytest.raises(ValueError, match="bool labels"):
        best_f1(cosines, alike.astype(int))
    with pytest.raises(ValueError, match="finite"):
        best_f1(np.where(alike, np.nan, 0), alike)
    with pytest.raises(ValueError, match="one length"):
        best_f1(cosines[1:], alike)
    with pytest.raises(ValueError, match="resamples is 0"):
        best_f1(cosines, alike, resamples=0)
