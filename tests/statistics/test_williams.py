"""Williams's test against published values and the formula written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencse.statistics import williams


def test_williams_equals_published_values() -> None:
    # Outputs of R's psych (r.test: 103 and 187 cases), bruceR (100) and cocor (70, 177).
    for r_ga, r_gb, r_ab, n, t, p, digits in [
        (0.4, 0.5, 0.1, 103, -0.89, 0.37, 2),
        (-0.11, 0.06, 0.41, 187, -2.15, 0.033, 2),
        (0.20, 0.45, 0.80, 100, -4.56, 1e-5, 2),
        (0.5447, 0.8, 0.0729, 70, -2.8114, 0.0065, 3),
        (0.8066, 0.2383, 0.2255, 177, 9.3823, 0.0000, 3),
    ]:
        found = williams(r_ga, r_gb, r_ab, n)
        assert found.statistic == pytest.approx(t, abs=0.6 * 10**-digits)
        assert found.p == pytest.approx(p, abs=0.005 if p == 0.37 else 5e-4)
        assert (found.df, found.n, found.interval) == (n - 3, n, None)
        assert found.difference == pytest.approx(100 * (r_ga - r_gb))


def test_it_equals_the_formula_written_out() -> None:
    a, b, c, n = 0.71, 0.64, 0.83, 40
    determinant = float(np.linalg.det(np.array([[1, a, b], [a, 1, c], [b, c, 1]])))
    mean = (a + b) / 2
    t = (a - b) * math.sqrt((n - 1) * (1 + c) / (2 * (n - 1) / (n - 3) * determinant + mean**2 * (1 - c) ** 3))
    assert williams(a, b, c, n).statistic == pytest.approx(t, rel=1e-12)


def test_p_of_t_with_one_degree_of_freedom_is_cauchy_s() -> None:
    found = williams(0.9, 0.3, 0.5, 4)
    assert found.statistic is not None
    assert found.p == pytest.approx(1 - 2 / math.pi * math.atan(abs(found.statistic)), rel=1e-9)


@pytest.mark.slow
@given(values=st.lists(st.floats(-3, 3), min_size=15, max_size=15), n=st.integers(4, 500))
def test_swapped_systems_flip_the_sign_and_keep_p(values: list[float], n: int) -> None:
    data = np.array(values).reshape(3, 5) + np.random.default_rng(0).normal(size=(3, 5))
    r = np.asarray(np.corrcoef(data))
    there = williams(float(r[0, 1]), float(r[0, 2]), float(r[1, 2]), n)
    back = williams(float(r[0, 2]), float(r[0, 1]), float(r[1, 2]), n)
    assert there.difference == -back.difference
    assert there.p == back.p
    assert there.statistic is not None
    assert back.statistic is not None
    assert there.statistic == -back.statistic
    assert (there.statistic > 0) == (there.difference > 0)


def test_more_pairs_and_nearer_systems_tell_more() -> None:
    few, many, near = williams(0.7, 0.65, 0.5, 100), williams(0.7, 0.65, 0.5, 1000), williams(0.7, 0.65, 0.9, 100)
    assert few.p is not None
    assert many.p is not None
    assert near.p is not None
    assert many.p < 0.05 < few.p
    assert near.p < few.p


def test_equal_correlations_have_p_one_even_where_the_formula_is_zero_by_zero() -> None:
    for r, r_ab in [(0.6, 0.3), (0.6, 1.0), (1.0, 1.0), (0.0, -1.0), (0.0, 0.0)]:
        found = williams(r, r, r_ab, 50)
        assert (found.difference, found.statistic, found.p) == (0.0, 0.0, 1.0)


def test_extremes_without_a_test_have_none() -> None:
    opposite = williams(0.5, -0.5, -1.0, 50)
    assert (opposite.statistic, opposite.p, opposite.difference) == (None, None, 100.0)
    assert opposite.undecided() == "the test is not defined for these correlations"
    still = williams(1.0, 0.5, 0.5, 50).statistic
    assert still == pytest.approx(0.5 * math.sqrt(49 * 1.5 / (0.75**2 * 0.5**3)))


def test_faults() -> None:
    with pytest.raises(ValueError, match="3 pairs; the test needs at least 4"):
        williams(0.5, 0.4, 0.3, 3)
    with pytest.raises(ValueError, match=r"no three variables have the correlations 0\.9, -0\.9 and 0\.9"):
        williams(0.9, -0.9, 0.9, 50)
    with pytest.raises(ValueError, match="no three variables"):
        williams(1.1, 1.1, 0.9, 50)
    with pytest.raises(ValueError, match="no three variables"):
        williams(math.nan, 0.5, 0.9, 50)
