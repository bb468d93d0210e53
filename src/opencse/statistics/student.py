"""Student's t-distribution with a whole number of degrees of freedom, without scipy."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np


def two_sided_p(t: float, df: int) -> float:
    r"""The probability of a value at least as far from 0 as t.

    With :math:`\theta = \arctan(t / \sqrt{\nu})`, :math:`p = 1 - A(t \mid \nu)` is a finite sum (Abramowitz and Stegun
    1964, 26.7.3 and 26.7.4): for an even :math:`\nu`

    .. math:: A = \sin\theta \Big(1 + \tfrac12 \cos^2\theta + \dots
              + \tfrac{1 \cdot 3 \cdots (\nu - 3)}{2 \cdot 4 \cdots (\nu - 2)} \cos^{\nu - 2}\theta\Big)

    and for an odd one (without the second part for 1)

    .. math:: A = \tfrac2\pi \Big(\theta + \sin\theta \big(\cos\theta + \tfrac23 \cos^3\theta + \dots
              + \tfrac{2 \cdot 4 \cdots (\nu - 3)}{3 \cdot 5 \cdots (\nu - 2)} \cos^{\nu - 2}\theta\big)\Big).

    Args:
        t: the value.
        df: degrees of freedom, at least 1.

    Example:
        >>> round(two_sided_p(2.0, 10), 4)
        0.0734
    """
    angle = math.atan(abs(t) / math.sqrt(df))
    return min(1.0, max(0.0, 1 - _within(angle, df)))


@lru_cache(maxsize=1_024)
def quantile(df: int, level: float) -> float:
    """The value that is exceeded in size with probability ``level``: the half width of an interval in standard errors.

    Args:
        df: degrees of freedom, at least 1.
        level: two-sided, .05 for a 95% interval.

    Example:
        >>> round(quantile(10, 0.05), 3), round(quantile(1, 0.05), 2)
        (2.228, 12.71)
    """
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, df) < 1 - level else (low, middle)
    return math.tan((low + high) / 2) * math.sqrt(df)


def _within(angle: float, df: int) -> float:
    """A of `two_sided_p`: the probability of a value that is nearer to 0."""
    sine, cosine = math.sin(angle), math.cos(angle)
    steps = np.arange(1, (df - 2) // 2 + 1 if df % 2 == 0 else (df - 3) // 2 + 1)
    factors = ((2 * steps - 1) / (2 * steps) if df % 2 == 0 else 2 * steps / (2 * steps + 1)) * cosine**2
    total = 1 + float(np.cumprod(factors).sum())
    if df % 2 == 0:
        return sine * total
    return 2 / math.pi * (angle + (sine * cosine * total if df > 1 else 0.0))
