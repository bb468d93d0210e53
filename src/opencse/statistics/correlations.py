"""Two correlations with the same gold, compared by formula: no resampling, only three correlations and n."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import FiniteFloat

from opencse.statistics.difference import Difference

LEAST = 4
"""The fewest pairs for which the tests have a degree of freedom."""

ROUNDING = 1e-12


class DependentCorrelations(Difference):
    """Two correlations with the same gold over the same pairs.

    Attributes:
        test: ``williams`` or ``steiger``.
        statistic: t of Williams or Z of Steiger; None where it is 0 / 0 or infinite.
        df: degrees of freedom of t; None for Z.
        n: pairs.
    """

    test: Literal["williams", "steiger"]
    statistic: FiniteFloat | None
    df: int | None
    n: int

    def over(self) -> str:
        """The pairs and the test."""
        return f"{self.n:,} pairs ({self.test.capitalize()} test)"

    def undecided(self) -> str:
        """See ``Difference``."""
        return "the test is not defined for these correlations" if self.p is None else super().undecided()


def williams(r_ga: float, r_gb: float, r_ab: float, n: int) -> DependentCorrelations:
    r"""Williams' t for two correlations that share a variable (Williams 1959; Steiger 1980, eq. 7).

    With :math:`\bar r = (r_{ga} + r_{gb}) / 2` and
    :math:`|R| = 1 - r_{ga}^2 - r_{gb}^2 - r_{ab}^2 + 2\, r_{ga} r_{gb} r_{ab}`,

    .. math:: t = (r_{ga} - r_{gb}) \sqrt{\frac{(n - 1)(1 + r_{ab})}
                  {2\, \frac{n - 1}{n - 3}\, |R| + \bar r^2 (1 - r_{ab})^3}}, \qquad \nu = n - 3

    Steiger (1980) recommends it; in NLP so do Graham and Baldwin (2014), for metrics judged by people. It is
    derived for Pearson's r of normal data; with Spearman's it is an approximation, ``paired_bootstrap`` not.

    Args:
        r_ga: correlation of gold with the system, in [-1, 1].
        r_gb: of gold with the baseline.
        r_ab: of the system with the baseline; the higher, the smaller a difference is seen.
        n: pairs.

    Returns:
        The difference in points (x 100), without an interval. Two systems that agree in full
        (0 / 0) have t = 0 and p = 1.

    Raises:
        ValueError: for n < 4, or correlations that no three variables can have.
    """
    determinant = _determinant(r_ga, r_gb, r_ab, n)
    mean = (r_ga + r_gb) / 2
    below = 2 * (n - 1) / (n - 3) * determinant + mean**2 * (1 - r_ab) ** 3
    t = _ratio((r_ga - r_gb) * math.sqrt((n - 1) * (1 + r_ab)), below, equal=r_ga == r_gb)
    return _found("williams", r_ga - r_gb, t, n - 3, n)


def steiger(r_ga: float, r_gb: float, r_ab: float, n: int) -> DependentCorrelations:
    r"""Steiger's Z for two correlations that share a variable (Steiger 1980, eq. 14, with eq. 10).

    With Fisher's :math:`z = \operatorname{artanh} r`, and the covariance taken at the pooled
    :math:`\bar r = (r_{ga} + r_{gb}) / 2`, as the null has it,

    .. math:: Z = (z_{ga} - z_{gb}) \sqrt{\frac{n - 3}{2 - 2 \bar s}}, \quad
              \bar s = \frac{r_{ab} (1 - 2 \bar r^2) - \tfrac12 \bar r^2 (1 - 2 \bar r^2 - r_{ab}^2)}
                            {(1 - \bar r^2)^2}

    against the standard normal. Asymptotic where ``williams`` is close at any n, otherwise similar; the same
    words on Spearman's hold.

    Args:
        r_ga: correlation of gold with the system, in [-1, 1].
        r_gb: of gold with the baseline.
        r_ab: of the system with the baseline.
        n: pairs.

    Returns:
        The difference in points (x 100), without an interval. Equal correlations have Z = 0
        and p = 1; one of exactly 1 or -1 has an infinite z, so no test.

    Raises:
        ValueError: for n < 4, or correlations that no three variables can have.
    """
    _determinant(r_ga, r_gb, r_ab, n)
    z: float | None = 0.0 if r_ga == r_gb else None
    if z is None and max(abs(r_ga), abs(r_gb)) < 1:
        square = ((r_ga + r_gb) / 2) ** 2
        covariance = (r_ab * (1 - 2 * square) - square * (1 - 2 * square - r_ab**2) / 2) / (1 - square) ** 2
        apart = (math.atanh(r_ga) - math.atanh(r_gb)) * math.sqrt(n - 3)
        z = _ratio(apart, 2 - 2 * covariance, equal=False)
    return _found("steiger", r_ga - r_gb, z, None, n)


def _found(
    test: Literal["williams", "steiger"], apart: float, statistic: float | None, df: int | None, n: int
) -> DependentCorrelations:
    """With the two-sided p of a t (or, without degrees of freedom, of a normal) statistic."""
    from scipy import stats

    p = None
    if statistic is not None:
        p = float(2 * (stats.norm.sf(abs(statistic)) if df is None else stats.t.sf(abs(statistic), df)))
    return DependentCorrelations(difference=100 * apart, interval=None, p=p, test=test, statistic=statistic, df=df, n=n)


def _determinant(r_ga: float, r_gb: float, r_ab: float, n: int) -> float:
    """Of the correlation matrix, at least 0; ValueError if it is none."""
    if n < LEAST:
        raise ValueError(f"{n} pairs; the test needs at least {LEAST}")
    given = (r_ga, r_gb, r_ab)
    determinant = 1 - (r_ga**2 + r_gb**2) - r_ab**2 + 2 * (r_ga * r_gb) * r_ab  # to the bit the same when swapped
    if not all(abs(r) <= 1 for r in given) or determinant < -ROUNDING:
        raise ValueError(f"no three variables have the correlations {r_ga}, {r_gb} and {r_ab}")
    return max(determinant, 0.0)


def _ratio(above: float, square_below: float, *, equal: bool) -> float | None:
    if equal:
        return 0.0
    return above / math.sqrt(square_below) if square_below > ROUNDING else None
