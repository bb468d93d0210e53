"""Bootstrap over queries: intervals of means, and paired differences."""

from __future__ import annotations

import numpy as np
import pytest

from opencse.statistics.difference import verdict
from opencse.statistics.means import intervals_of_means, paired_queries, resampled_means


def test_resampled_means_are_means_of_drawn_rows() -> None:
    values = np.random.default_rng(1).normal(size=(7, 2))
    means = resampled_means(values, resamples=50, seed=3)
    draws = np.random.default_rng(3).integers(0, 7, size=(50, 7))
    assert means == pytest.approx(np.stack([values[rows].mean(axis=0) for rows in draws]))
    assert means.std() > 0


def test_the_interval_covers_the_true_mean_in_about_95_of_100_samples() -> None:
    random = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        low, high = intervals_of_means({"x": random.normal(50, 20, size=100)}, resamples=1000)["x"] or (0, 0)
        covered += low < 50 < high
    assert 0.90 <= covered / 200 <= 0.985


def test_pairing_narrows_the_interval_of_a_difference() -> None:
    random = np.random.default_rng(0)
    difficulty = random.normal(50, 25, size=300)
    a, b = difficulty + random.normal(2, 3, size=300), difficulty + random.normal(0, 3, size=300)
    difference = paired_queries(a, b)
    assert difference.interval is not None
    width = difference.interval[1] - difference.interval[0]
    single = intervals_of_means({"a": a})["a"]
    assert single is not None
    assert width < (single[1] - single[0]) / 4
    assert difference.direction() == "better"
    assert paired_queries(b, a).direction() == "worse"


def test_equal_systems_are_not_told_apart() -> None:
    values = np.random.default_rng(0).normal(size=40)
    difference = paired_queries(values, values)
    assert (difference.difference, difference.p, difference.direction()) == (0, 1, None)


def test_few_queries_decide_nothing() -> None:
    """With two queries the bootstrap would reject in a quarter of all draws of noise, with ten in a tenth."""
    for n in (2, 7, 19):
        difference = paired_queries(np.linspace(60, 70, n), np.full(n, 50.0))
        assert difference.interval is not None
        assert difference.direction() is None
        assert verdict(difference).endswith(f"over {n} queries: too few queries to tell, at least 20 are needed")
    assert paired_queries(np.linspace(60, 70, 20), np.full(20, 50.0)).direction() == "better"


def test_a_single_query_has_no_interval() -> None:
    assert intervals_of_means({"ndcg": np.array([50.0])}) == {"ndcg": None}
    difference = paired_queries(np.array([50.0]), np.array([20.0]))
    assert (difference.difference, difference.interval, difference.p) == (30, None, None)
    with pytest.raises(ValueError, match="one length"):
        paired_queries(np.ones(2), np.ones(3))


def test_many_queries_are_drawn_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(2).normal(size=(30, 3))
    at_once = resampled_means(values, resamples=40)
    monkeypatch.setattr("opencse.statistics.means._BLOCK", 90)
    assert resampled_means(values, resamples=40) == pytest.approx(at_once)
