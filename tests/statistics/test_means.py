"""Student's t over queries: intervals of means, and paired differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from opencse.statistics.difference import verdict
from opencse.statistics.means import intervals_of_means, paired_queries


def test_intervals_and_tests_are_those_of_scipy() -> None:
    random = np.random.default_rng(0)
    for n in (2, 18, 300):
        a, b = random.normal(50, 10, size=n), random.normal(52, 10, size=n)
        difference, wanted = paired_queries(a, b), stats.ttest_rel(a, b)
        assert difference.p == pytest.approx(wanted.pvalue)
        assert difference.interval == pytest.approx(tuple(wanted.confidence_interval(0.95)))
        single = intervals_of_means({"a": a})["a"]
        assert single is not None
        low, high = stats.ttest_1samp(a, 0).confidence_interval(0.95)
        assert single == pytest.approx((max(0, low), min(100, high)))


@pytest.mark.parametrize("n", [5, 18, 100])
def test_the_interval_covers_the_true_mean_in_about_95_of_100_samples(n: int) -> None:
    random = np.random.default_rng(n)
    samples = [intervals_of_means({"x": random.normal(50, 8, size=n)})["x"] or (0, 0) for _ in range(1_000)]
    assert 0.935 <= np.mean([low < 50 < high for low, high in samples]) <= 0.965


def test_an_interval_stays_within_the_measure() -> None:
    assert intervals_of_means({"x": np.array([0.0, 0.0, 100.0])}) == {"x": (0.0, 100.0)}


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
    assert (difference.difference, difference.interval, difference.p, difference.direction()) == (0, None, None, None)
    assert verdict(difference) == "+0.00 over 40 queries: no difference shown"


def test_few_queries_decide_nothing() -> None:
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
