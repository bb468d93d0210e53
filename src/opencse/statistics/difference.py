"""Differences of two systems: intervals, Student's t, and Holm's adjustment for several comparisons."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Annotated, TypeVar

import numpy as np
from pydantic import Field, FiniteFloat

from opencse.numerals import number_of
from opencse.settings import Settings


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
    # Sixty halvings of the angle reach float64's last bit.
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


ALPHA = 0.05
"""The level of every test here, and 1 - ALPHA the level of every interval."""

LEAST_SHOWN = 0.001

Interval = tuple[FiniteFloat, FiniteFloat]
"""The lower and upper end of a 95% interval."""

Probability = Annotated[float, Field(ge=0, le=1)]


class AfterHolm(Settings):
    """The p of a comparison, adjusted for all comparisons of its family (``holm``).

    Attributes:
        p: the adjusted p.
        comparisons: the size of the family.
    """

    p: Probability
    comparisons: int


class Difference(Settings, ABC):
    """The score of a system minus the score of a baseline; higher is better.

    Attributes:
        difference: system minus baseline, in points (scores are x 100).
        interval: its 95% interval; None where none can be given.
        p: two-sided, of no difference; None where no test is defined.
        holm: the p after adjustment for all comparisons made; None if it was not adjusted.
    """

    difference: FiniteFloat
    interval: Interval | None
    p: Probability | None
    holm: AfterHolm | None = None

    @abstractmethod
    def over(self) -> str:
        """The samples it was computed over, for instance ``5 paired seeds``."""

    def decides(self) -> bool:
        """Whether there are enough samples to call it better or worse."""
        return True

    def undecided(self) -> str:
        """The conclusion where p is absent or not below ``ALPHA``."""
        return "no difference shown"

    def decisive_p(self) -> float | None:
        """The p after Holm if the difference was adjusted, else p; None where there is too little to decide on."""
        if not self.decides():
            return None
        return self.p if self.holm is None else self.holm.p

    def direction(self) -> str | None:
        """``better`` or ``worse`` where ``decisive_p`` is below ``ALPHA``, else None."""
        p = self.decisive_p()
        if p is None or p >= ALPHA:
            return None
        return "better" if self.difference > 0 else "worse"


class ResampledDifference(Difference):
    """A difference whose interval and p are from resamples.

    Attributes:
        n: how many samples were drawn from.
        resamples: number of resamples.
        seed: of the draws.
    """

    n: int
    resamples: int
    seed: int


D = TypeVar("D", bound=Difference)
K = TypeVar("K", bound=Hashable)


def holm(p_values: Mapping[K, float | None]) -> dict[K, float]:
    r"""Adjusts p-values so that any false claim in the family has at most the level's probability (Holm 1979).

    With the m values in rising order :math:`p_{(1)} \le \dots \le p_{(m)}`,

    .. math:: \tilde p_{(i)} = \min\Big(1, \max_{j \le i}\, (m - j + 1)\, p_{(j)}\Big)

    whatever the dependence between the tests.

    Args:
        p_values: by name (any key); None where no test was defined, which is no member of the family.

    Returns:
        Adjusted p by name, in the order given, without those that were None.

    Example:
        >>> holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": None})
        {'a': 0.03, 'b': 0.06, 'c': 0.06}
    """
    known = {name: p for name, p in p_values.items() if p is not None}
    adjusted: dict[K, float] = {}
    running = 0.0
    for position, name in enumerate(sorted(known, key=lambda name: known[name])):
        # A larger p is never adjusted to a smaller one.
        running = max(running, (len(known) - position) * known[name])
        adjusted[name] = min(1.0, running)
    return {name: adjusted[name] for name in known}


def after_holm(differences: Mapping[K, D]) -> dict[K, D]:
    """Adjusts the p of differences that were examined together; see ``holm``.

    Differences without a p, or with too few seeds to decide, stay as they are and do not count.

    Example:
        >>> from opencse.statistics import paired_seeds
        >>> before = {1: 74.8, 2: 75.3, 3: 75.2}
        >>> runs = {"a": {1: 76.2, 2: 76.9, 3: 77.4}, "b": {1: 74.9, 2: 75.1, 3: 75.3}}
        >>> adjusted = after_holm({name: paired_seeds(run, before) for name, run in runs.items()})
        >>> adjusted["a"].holm.comparisons, adjusted["b"].direction()
        (2, None)
    """
    adjusted = holm({name: one.p if one.decides() else None for name, one in differences.items()})
    updated = dict(differences)
    for name, p in adjusted.items():
        updated[name] = updated[name].model_copy(update={"holm": AfterHolm(p=p, comparisons=len(adjusted))})
    return updated


def verdict(difference: Difference) -> str:
    """Summarises a difference in one line: its value, interval, samples, p, and conclusion.

    ``better`` or ``worse`` only where p, after Holm if the difference was adjusted, is below ``ALPHA``; else
    ``no difference shown``, which is not "equal", or why it cannot be decided (over seeds: fewer than three). For
    instance::

        +1.23 (95% interval +0.41 to +2.05) over 5 paired seeds; p = .012 after Holm over 6 comparisons: better
        +0.20 (95% interval -3.70 to +4.10) over 3 paired seeds; p = .846: too few to tell at this spread

    Example:
        >>> from opencse.statistics import paired_seeds
        >>> verdict(paired_seeds({1: 76.2, 2: 76.9, 3: 77.4}, {1: 74.8, 2: 75.3, 3: 75.2}))
        '+1.73 (95% interval +0.70 to +2.77) over 3 paired seeds; p = .019: better'
    """
    text = _signed(difference.difference)
    if difference.interval is not None:
        text += f" (95% interval {_signed(difference.interval[0])} to {_signed(difference.interval[1])})"
    text += f" over {difference.over()}"
    p = difference.decisive_p()
    if p is not None:
        text += f"; p {_p_text(p)}"
    if p is not None and difference.holm is not None:
        count = difference.holm.comparisons
        text += f" after Holm over {number_of(count, 'comparison')}"
    return f"{text}: {difference.direction() or difference.undecided()}"


def brief(difference: Difference) -> str:
    """Summarises a difference for a table's cell: its value, half its interval, and p.

    The interval must be symmetric (over seeds, not over pairs).

    Example:
        >>> from opencse.statistics import paired_seeds
        >>> brief(paired_seeds({1: 76.2, 2: 76.9, 3: 77.4}, {1: 74.8, 2: 75.3, 3: 75.2}))
        '+1.73 ± 1.03 (p = .019)'
    """
    text = _signed(difference.difference)
    if difference.interval is not None:
        text += f" ± {(difference.interval[1] - difference.interval[0]) / 2:.2f}"
    p = difference.decisive_p()
    return text if p is None else f"{text} (p {_p_text(p)})"


def _signed(points: float) -> str:
    return f"{round(points, 2) + 0.0:+.2f}"  # + 0.0 turns -0.0 into 0.0


def _p_text(p: float) -> str:
    if p < LEAST_SHOWN:
        return "< .001"
    digits = 4 if abs(p - ALPHA) < LEAST_SHOWN / 2 else 3  # .0496 is below the level, .050 would not look it
    return f"= {p:.{digits}f}".replace("= 0.", "= .")
