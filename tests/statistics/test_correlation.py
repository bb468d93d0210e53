"""Correlations and cosines against naive loops and scipy."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import pearsonr, rankdata, spearmanr

from opencse.arrays import Floats
from opencse.errors import UserError
from opencse.statistics.correlation import cosine_of_pairs, cosine_of_rows, mean_ranks, pearson, spearman


@pytest.mark.parametrize("correlate", [spearman, pearson])
def test_constant_side_is_zero_without_a_warning(correlate: Callable[[Floats, Floats], float]) -> None:
    gold = np.array([1.0, 2.0, 3.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert correlate(np.full(3, 0.7), gold) == correlate(gold, np.full(3, 0.7)) == 0.0
        assert pearson(np.array([0.7, 0.7 + 1.2e-16, 0.7]), gold) == 0.0, "constant up to rounding"
    assert pearson(gold * 2.0**1000, gold[[2, 0, 1]] * 2.0**-1000) == pearson(gold, gold[[2, 0, 1]])


def test_cosine_neither_overflows_nor_underflows() -> None:
    u, v = np.array([[3.0, 4.0]] * 3), np.array([[4.0, 3.0]] * 3)
    scales = np.array([[1e300], [1e-300], [1.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(cosine_of_rows(u * scales, v * scales[::-1]), 0.96, atol=1e-14)
        assert cosine_of_rows(0 * u, v).tolist() == [0.0] * 3


def test_equal_rows_tie_at_exactly_one() -> None:
    rows = np.random.default_rng(2).normal(size=(500, 64)).astype(np.float32)
    assert set(cosine_of_rows(rows, rows.copy()).tolist()) == {1.0}
    assert set(cosine_of_rows(rows, -rows).tolist()) == {-1.0}


def test_vectors_that_are_not_finite_are_reported() -> None:
    u = np.ones((4, 3), dtype=np.float32)
    v = u.copy()
    v[2, 1] = math.nan
    with pytest.raises(UserError, match=r"1 of 4 sentence vectors hold NaN or infinite values \(first: row 2"):
        cosine_of_rows(u, v)


@pytest.mark.parametrize("seed", range(20))
def test_correlations_are_scipy_s_bit_for_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 200))
    x = rng.standard_normal(n).round(int(rng.integers(0, 4)))
    y = np.array([value / 2 for value in rng.permutation(n).tolist()])
    x[0] += 1  # never constant
    assert (mean_ranks(x) == rankdata(x)).all()
    assert spearman(x, y) == spearmanr(x, y).statistic
    assert pearson(x, y) == pytest.approx(pearsonr(x, y).statistic, abs=1e-15)


def test_pairs_of_one_matrix_are_its_rows() -> None:
    """Bit for bit, also for values that overflow when squared, and rows of zeros."""
    numbers = np.random.default_rng(5)
    vectors = numbers.normal(size=(40, 5)) * numbers.choice([1e-300, 1e-3, 1.0, 1e200], size=(40, 1))
    vectors[7] = 0.0
    first, second = numbers.integers(0, 40, 5_000), numbers.integers(0, 40, 5_000)
    cosines = cosine_of_pairs(vectors, first, second)
    assert np.array_equal(cosines, cosine_of_rows(vectors[first], vectors[second]))
