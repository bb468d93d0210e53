"""Over seeds: does the method score higher, whatever the seed?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from opencse.analysis.significance.comparison import ALPHA, Comparison, Interval, Probability
from opencse.errors import UserError
from opencse.settings import Settings

Floats = NDArray[np.float64]

MOST_FLIPPED = 20
"""Beyond this many seeds the 2^n sign flips are not listed."""

FEW_SEEDS = 5
"""With fewer, a test that does not reject tells next to nothing: t needs 3 to 13 standard errors."""

ROUNDING = 1e-9
"""Relative to the scores, what is no spread but the rounding of subtraction."""


class Summary(Settings):
    """One system over its seeds.

    Attributes:
        mean: of the n values.
        sd: with n - 1 in the denominator; None for n = 1.
        n: number of values.
        interval: 95% interval of the mean; None for n = 1 or values that do not vary.
    """

    mean: FiniteFloat
    sd: FiniteFloat | None
    n: int
    interval: Interval | None


class PairedSeeds(Comparison):
    """Two systems at the same seeds.

    Attributes:
        p: of the paired t-test; None for one seed or differences that do not vary.
        sd: of the differences; None for one seed.
        sign_flip_p: exact; None for one seed (it could only be 1) or more than ``MOST_FLIPPED``.
        seeds: those used, which both have.
        left_out: those which only one of the two has.
    """

    sd: FiniteFloat | None
    sign_flip_p: Probability | None
    seeds: tuple[int, ...]
    left_out: tuple[int, ...]

    def over(self) -> str:
        """The number of seeds used."""
        return f"{len(self.seeds)} paired seed{'s' * (len(self.seeds) > 1)}"

    def undecided(self) -> str:
        """See ``Comparison``."""
        return _undecided(self, len(self.seeds), "the same at every seed")


class UnpairedSeeds(Comparison):
    """Two systems at seeds that do not pair.

    Attributes:
        p: of Welch's test; None if a side has one value or neither varies.
        df: Welch and Satterthwaite's degrees of freedom; None likewise.
        system: the system's summary.
        baseline: the baseline's.
    """

    df: FiniteFloat | None
    system: Summary
    baseline: Summary

    def over(self) -> str:
        """The number of seeds of each."""
        return f"{self.system.n} and {self.baseline.n} seeds, not paired"

    def undecided(self) -> str:
        """See ``Comparison``."""
        return _undecided(self, min(self.system.n, self.baseline.n), "neither varies over seeds")


def summary(values: Sequence[float]) -> Summary:
    r"""Mean, standard deviation and the 95% t-interval of the mean over n values (one a seed).

    .. math:: \bar x = \frac1n \sum_i x_i, \quad s^2 = \frac{1}{n - 1} \sum_i (x_i - \bar x)^2, \quad
              \bar x \pm t_{n-1,\,.975}\, \frac{s}{\sqrt n}

    The interval rests on scores that are about normal over seeds. Values that do not vary get none: an
    interval of width 0 would claim certainty, where equal scores rather say that the seed played no part.

    Args:
        values: n scores, in points.

    Raises:
        UserError: for no value, or one that is not finite.
    """
    array = _checked(dict(enumerate(values)), "the scores", "value")
    return _summary(array, float(np.abs(array).max()))


def paired_seeds(system: Mapping[int, float], baseline: Mapping[int, float]) -> PairedSeeds:
    r"""System minus baseline at each seed that both have, tested in two ways.

    With :math:`d_i` the difference at seed i, :math:`\bar d` their mean and s their standard deviation
    (n - 1), Student's paired test is

    .. math:: t = \frac{\bar d}{s / \sqrt n}, \qquad p = 2\, P(T_{n-1} \ge |t|)

    for differences that are about normal; the interval is :math:`\bar d \pm t_{n-1,.975}\, s / \sqrt n`. The
    sign-flip test (Fisher 1935, The design of experiments, section 21) asks less, only that a difference
    would be as likely with the other sign, and is exact:

    .. math:: p = 2^{-n} \sum_{e \in \{-1, 1\}^n} \Big[ \Big|\sum_i e_i d_i\Big| \ge \Big|\sum_i d_i\Big| \Big]

    Its least value is :math:`2^{1-n}`: with 5 seeds .0625, so that it cannot reject at 5% by itself.

    Args:
        system: seed -> score, in points.
        baseline: seed -> score of what it is compared with.

    Returns:
        The difference, naming the seeds used and left out. One seed has neither interval nor p; differences
        that do not vary (up to rounding) have no interval and no t-test, but the sign-flip p.

    Raises:
        UserError: if no seed is in common, or a score is not finite.
    """
    _checked(system, "the system", "seed")
    _checked(baseline, "the baseline", "seed")
    seeds = tuple(sorted(system.keys() & baseline.keys()))
    if not seeds:
        raise UserError(
            f"no seed in common (system: {_listed(system)}; baseline: {_listed(baseline)}); "
            "run both at the same seeds, or compare them unpaired (Welch)"
        )
    ours = np.array([system[seed] for seed in seeds], dtype=np.float64)
    theirs = np.array([baseline[seed] for seed in seeds], dtype=np.float64)
    differences = ours - theirs
    scale = float(max(np.abs(ours).max(), np.abs(theirs).max()))
    found = _summary(differences, scale)
    p = None
    if found.sd:
        p = _two_sided(found.mean / (found.sd / math.sqrt(found.n)), found.n - 1)
    return PairedSeeds(
        difference=found.mean,
        interval=found.interval,
        p=p,
        sd=found.sd,
        sign_flip_p=sign_flip_p(differences) if 1 < found.n <= MOST_FLIPPED else None,
        seeds=seeds,
        left_out=tuple(sorted(system.keys() ^ baseline.keys())),
    )


def welch(system: Sequence[float], baseline: Sequence[float]) -> UnpairedSeeds:
    r"""System minus baseline where their seeds do not pair (Welch 1947); variances may differ.

    .. math:: t = \frac{\bar x - \bar y}{\sqrt{v_x + v_y}}, \quad v_x = \frac{s_x^2}{n_x}, \quad
              \nu = \frac{(v_x + v_y)^2}{v_x^2 / (n_x - 1) + v_y^2 / (n_y - 1)}

    with :math:`T_\nu` in place of :math:`T_{n-1}`. Where seeds pair, ``paired_seeds`` sees smaller differences.

    Args:
        system: scores, in points, one a seed.
        baseline: scores of what it is compared with.

    Returns:
        The difference of the means. A side of one value, or two sides that do not vary, have neither interval
        nor p.

    Raises:
        UserError: for a side without a value, or a value that is not finite.
    """
    ours = _checked(dict(enumerate(system)), "the system", "value")
    theirs = _checked(dict(enumerate(baseline)), "the baseline", "value")
    scale = float(max(np.abs(ours).max(), np.abs(theirs).max()))
    x, y = _summary(ours, scale), _summary(theirs, scale)
    difference = x.mean - y.mean
    interval, p, df = None, None, None
    if x.sd is not None and y.sd is not None and (x.sd or y.sd):
        v_x, v_y = x.sd**2 / x.n, y.sd**2 / y.n
        error = math.sqrt(v_x + v_y)
        df = (v_x + v_y) ** 2 / (v_x**2 / (x.n - 1) + v_y**2 / (y.n - 1))
        p = _two_sided(difference / error, df)
        interval = _around(difference, error, df)
    return UnpairedSeeds(difference=difference, interval=interval, p=p, df=df, system=x, baseline=y)


def sign_flip_p(differences: Floats) -> float:
    """The exact two-sided p of the sign-flip test; see ``paired_seeds``.

    Args:
        differences: (n,), n <= ``MOST_FLIPPED``: :math:`2^{n-1}` sums are held.

    Returns:
        A multiple of :math:`2^{1-n}`; sums that are equal but for rounding count as equal.
    """
    sums = differences[:1]  # the flips of all signs at once are mirror images, so the first keeps its sign
    for difference in differences[1:]:
        sums = np.concatenate([sums + difference, sums - difference])
    least = abs(differences.sum()) - ROUNDING * np.abs(differences).sum()
    return float((np.abs(sums) >= least).mean())


def _summary(values: Floats, scale: float) -> Summary:
    """Of values that came from numbers up to ``scale``."""
    n, mean = len(values), float(values.mean())
    if n == 1:
        return Summary(mean=mean, sd=None, n=1, interval=None)
    if float(np.ptp(values)) <= ROUNDING * scale:
        mean = 0.0 if abs(mean) <= ROUNDING * scale else mean
        return Summary(mean=mean, sd=0.0, n=n, interval=None)
    sd = float(values.std(ddof=1))
    return Summary(mean=mean, sd=sd, n=n, interval=_around(mean, sd / math.sqrt(n), n - 1))


def _two_sided(t: float, df: float) -> float:
    from scipy.special import stdtr

    return float(2 * stdtr(df, -abs(t)))


def _around(centre: float, error: float, df: float) -> tuple[float, float]:
    from scipy.special import stdtrit

    reach = error * float(stdtrit(df, 1 - ALPHA / 2))
    return centre - reach, centre + reach


def _undecided(comparison: Comparison, n: int, unvarying: str) -> str:
    if n == 1:
        return "too few to tell"
    if comparison.p is None and comparison.difference:
        return f"{unvarying}, so there is no spread to test against"
    if comparison.p is not None and n < FEW_SEEDS:
        return "too few to tell at this spread"
    return "no difference shown"


def _checked(scores: Mapping[int, float], whose: str, what: str) -> Floats:
    if not scores:
        raise UserError(f"{whose}: no score is there; at least one is needed, and two or more for an interval")
    for key, score in scores.items():
        if not math.isfinite(score):
            raise UserError(f"{whose}, {what} {key}: the score is {score}; a finite number is expected")
    return np.array(list(scores.values()), dtype=np.float64)


def _listed(scores: Mapping[int, float]) -> str:
    return ", ".join(str(seed) for seed in sorted(scores))
