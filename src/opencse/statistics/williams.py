"""Williams's test: compares two correlations with the same gold scores by a formula, without resampling."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import FiniteFloat

from opencse.numerals import number_of
from opencse.statistics.difference import Difference

LEAST = 4
"""The fewest pairs for which the test has a degree of freedom."""

ROUNDING = 1e-12


class DependentCorrelations(Difference):
    """The difference of two correlations with the same gold scores over the same pairs.

    Attributes:
        test: ``williams``.
        statistic: its t; None where it is 0 / 0 or infinite.
        df: degrees of freedom of t.
        n: pairs.
    """

    test: Literal["williams"]
    statistic: FiniteFloat | None
    df: int
    n: int

    def over(self) -> str:
        """The pairs and the test."""
        return f"{number_of(self.n, 'pair')} ({self.test.capitalize()} test)"

    def undecided(self) -> str:
        """See ``Difference``."""
        return "the test is not defined for these correlations" if self.p is None else super().undecided()


def williams(r_ga: float, r_gb: float, r_ab: float, n: int) -> DependentCorrelations:
    r"""Tests two correlations that share a variable, by Williams's t (Williams 1959; Steiger 1980, eq. 7).

    With :math:`\bar r = (r_{ga} + r_{gb}) / 2` and
    :math:`|R| = 1 - r_{ga}^2 - r_{gb}^2 - r_{ab}^2 + 2\, r_{ga} r_{gb} r_{ab}`,

    .. math:: t = (r_{ga} - r_{gb}) \sqrt{\frac{(n - 1)(1 + r_{ab})}
                  {2\, \frac{n - 1}{n - 3}\, |R| + \bar r^2 (1 - r_{ab})^3}}, \qquad \nu = n - 3

    Steiger (1980) recommends it; in NLP, Graham and Baldwin (2014) do so for metrics judged by people. It is
    derived for Pearson's r of normal data and is an approximation for Spearman's, unlike ``paired_bootstrap``.

    Args:
        r_ga: correlation of the gold scores with the system, in [-1, 1].
        r_gb: of the gold scores with the baseline.
        r_ab: of the system with the baseline; the higher, the smaller the differences that the test can detect.
        n: pairs.

    Returns:
        The difference in points (x 100), without an interval. Two systems that agree in full
        (0 / 0) have t = 0 and p = 1.

    Raises:
        ValueError: for n < 4, or correlations that no three variables can have.

    Example:
        >>> difference = williams(0.75, 0.70, 0.90, 1379)
        >>> round(difference.difference, 2), round(difference.statistic, 2), difference.df
        (5.0, 6.28, 1376)
        >>> difference.direction()
        'better'
    """
    determinant = _determinant(r_ga, r_gb, r_ab, n)
    mean = (r_ga + r_gb) / 2
    denominator = 2 * (n - 1) / (n - 3) * determinant + mean**2 * (1 - r_ab) ** 3
    t: float | None = None
    if r_ga == r_gb:
        t = 0.0
    elif denominator > ROUNDING:
        t = (r_ga - r_gb) * math.sqrt((n - 1) * (1 + r_ab)) / math.sqrt(denominator)
    return DependentCorrelations(
        difference=100 * (r_ga - r_gb),
        interval=None,
        p=_two_sided_p(t, n - 3),
        test="williams",
        statistic=t,
        df=n - 3,
        n=n,
    )


def _two_sided_p(t: float | None, df: int) -> float | None:
    from scipy import stats

    return None if t is None else float(2 * stats.t.sf(abs(t), df))


def _determinant(r_ga: float, r_gb: float, r_ab: float, n: int) -> float:
    """The determinant of the correlation matrix, at least 0.

    Raises:
        ValueError: for too few pairs, or values that are no correlation matrix.
    """
    if n < LEAST:
        raise ValueError(f"{n} pairs; the test needs at least {LEAST}")
    # Written so that swapping the two systems gives the same bits.
    determinant = 1 - (r_ga**2 + r_gb**2) - r_ab**2 + 2 * (r_ga * r_gb) * r_ab
    if not all(abs(r) <= 1 for r in (r_ga, r_gb, r_ab)) or determinant < -ROUNDING:
        raise ValueError(f"no three variables have the correlations {r_ga}, {r_gb} and {r_ab}")
    return max(determinant, 0.0)
