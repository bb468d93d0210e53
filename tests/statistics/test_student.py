"""Student's distribution, against scipy's."""

from __future__ import annotations

import pytest
from scipy import stats

from opencse.statistics.student import quantile, two_sided_p


@pytest.mark.parametrize("df", [1, 2, 3, 4, 5, 17, 18, 99, 100, 4_999, 50_000])
def test_it_is_the_distribution_of_scipy(df: int) -> None:
    for t in (0.0, 1e-6, 0.3, 1.96, -2.5, 6.0, 40.0):
        assert two_sided_p(t, df) == pytest.approx(2 * stats.t.sf(abs(t), df), abs=1e-10)
    for level in (0.05, 0.01, 0.5):
        assert quantile(df, level) == pytest.approx(stats.t.ppf(1 - level / 2, df), rel=1e-9)
