"""Differences over seeds: means with their intervals, paired tests, and two sources of chance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from pydantic import FiniteFloat

from opencse.arrays import Floats
from opencse.errors import UserError
from opencse.numerals import number_of
from opencse.settings import Settings
from opencse.statistics.difference import ALPHA, Difference, Interval, Probability, quantile, two_sided_p

MOST_FLIPPED = 20
"""Beyond this many seeds the 2^n sign flips are not listed."""

LEAST_SEEDS = 3
"""With fewer, no difference is called better or worse: two differences of -0.1 and 5 points and two of 2.4 and 2.5 have
one degree of freedom, and p is then about how equal the two happen to be."""

FEW_SEEDS = 5
"""With fewer, a test that does not reject says next to nothing: t needs 3 to 13 standard errors."""

ROUNDING = 1e-9
"""Spread, relative to the scores, below which it is only the rounding of subtraction."""

LEAST_SPREAD = 1e-150
"""A spread below it is none: its square is too small for a float, and a t-test would divide by zero."""


class Summary(Settings):
    """The mean and spread of one system over its seeds.

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


class PairedSeeds(Difference):
    """The difference of two systems at the same seeds.

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
        return f"{number_of(len(self.seeds), 'paired seed')}"

    def decides(self) -> bool:
        """Whether there are at least ``LEAST_SEEDS`` seeds."""
        return len(self.seeds) >= LEAST_SEEDS

    def undecided(self) -> str:
        """See ``Difference``."""
        if not self.decides():
            return f"too few seeds to tell, at least {LEAST_SEEDS} are needed"
        if self.p is None and self.difference:
            return "the same at every seed, so there is no spread to test against"
        if self.p is not None and len(self.seeds) < FEW_SEEDS:
            return "too few to tell at this spread"
        return "no difference shown"


def summary(values: Sequence[float]) -> Summary:
    r"""Computes mean, standard deviation and the 95% t-interval of the mean over n values (one for each seed).

    .. math:: \bar x = \frac1n \sum_i x_i, \quad s^2 = \frac{1}{n - 1} \sum_i (x_i - \bar x)^2, \quad
              \bar x \pm t_{n-1,\,.975}\, \frac{s}{\sqrt n}

    The interval rests on scores that are about normal over seeds. Values that do not vary get none: an
    interval of width 0 would claim certainty, where equal scores rather say that the seed played no part.

    Args:
        values: n scores, in points, at least one.

    Example:
        >>> scores = summary([76.0, 77.0, 75.5])
        >>> round(scores.mean, 2), round(scores.sd, 2), [round(end, 2) for end in scores.interval]
        (76.17, 0.76, [74.27, 78.06])
    """
    array = np.array(values, dtype=np.float64)
    return tested(array, float(np.abs(array).max()))[0]


def paired_seeds(system: Mapping[int, float], baseline: Mapping[int, float]) -> PairedSeeds:
    r"""Tests the system minus the baseline over the seeds that both have, in two ways.

    With :math:`d_i` the difference at seed i, :math:`\bar d` their mean and s their standard deviation
    (n - 1), Student's paired test is

    .. math:: t = \frac{\bar d}{s / \sqrt n}, \qquad p = 2\, P(T_{n-1} \ge |t|)

    for differences that are about normal; the interval is :math:`\bar d \pm t_{n-1,.975}\, s / \sqrt n`. The
    sign-flip test (Fisher 1935, The design of experiments, section 21) assumes less, only that a difference
    would be as likely with the other sign, and is exact:

    .. math:: p = 2^{-n} \sum_{e \in \{-1, 1\}^n} \Big[ \Big|\sum_i e_i d_i\Big| \ge \Big|\sum_i d_i\Big| \Big]

    Its least value is :math:`2^{1-n}`: with 5 seeds .0625, so that it cannot reject at 5% by itself.

    Args:
        system: seed -> score, in points.
        baseline: seed -> score of what it is compared with.

    Returns:
        The difference, naming the seeds used and left out. One seed has neither interval nor p; differences
        that do not vary (up to rounding, or by less than ``LEAST_SPREAD``) have no interval and no t-test, but the
        sign-flip p.

    Raises:
        UserError: if no seed is in common.

    Example:
        >>> difference = paired_seeds({1: 76.2, 2: 76.9, 3: 77.4}, {1: 74.8, 2: 75.3, 3: 75.2})
        >>> round(difference.difference, 2), round(difference.p, 3), difference.seeds
        (1.73, 0.019, (1, 2, 3))
    """
    seeds = tuple(sorted(system.keys() & baseline.keys()))
    if not seeds:
        have = (", ".join(map(str, sorted(scores))) for scores in (system, baseline))
        raise UserError("no seed in common (system: {}; baseline: {}); run both at the same seeds".format(*have))
    ours = np.array([system[seed] for seed in seeds], dtype=np.float64)
    theirs = np.array([baseline[seed] for seed in seeds], dtype=np.float64)
    differences = ours - theirs
    statistics, p = tested(differences, float(max(np.abs(ours).max(), np.abs(theirs).max())))
    return PairedSeeds(
        difference=statistics.mean,
        interval=statistics.interval,
        p=p,
        sd=statistics.sd,
        sign_flip_p=sign_flip_p(differences) if 1 < statistics.n <= MOST_FLIPPED else None,
        seeds=seeds,
        left_out=tuple(sorted(system.keys() ^ baseline.keys())),
    )


def sign_flip_p(differences: Floats) -> float:
    """Computes the exact two-sided p of the sign-flip test; see ``paired_seeds``.

    scipy's ``permutation_test`` would list the flips one by one in Python, and takes sums that differ by rounding
    alone for unequal.

    Args:
        differences: (n,), n <= ``MOST_FLIPPED``: :math:`2^{n-1}` sums are held.

    Returns:
        A multiple of :math:`2^{1-n}`; sums that are equal but for rounding count as equal.

    Example:
        >>> sign_flip_p(np.array([1.0, 2.0, 0.5, 1.5, 1.0]))
        0.0625
    """
    sums = differences[:1]  # the flips of all signs at once are mirror images, so the first keeps its sign
    for difference in differences[1:]:
        sums = np.concatenate([sums + difference, sums - difference])
    least = abs(differences.sum()) - ROUNDING * np.abs(differences).sum()
    return float((np.abs(sums) >= least).mean())


def tested(values: Floats, scale: float) -> tuple[Summary, float | None]:
    """Summarises values that came from scores up to ``scale``, with the p of a mean of 0 by Student's t-test.

    Example:
        >>> statistics, p = tested(np.array([1.0, 2.0, 3.0]), scale=3.0)
        >>> round(statistics.mean, 2), round(p, 3)
        (2.0, 0.074)

    Args:
        values: (n,), at least one.
        scale: size of the scores, by which differences of rounding alone are recognised.
    """
    n, mean = len(values), float(values.mean())
    if n == 1:
        return Summary(mean=mean, sd=None, n=1, interval=None), None
    least = max(ROUNDING * scale, LEAST_SPREAD)
    if float(np.ptp(values)) <= least:
        mean = 0.0 if abs(mean) <= least else mean
        return Summary(mean=mean, sd=0.0, n=n, interval=None), None
    sd = float(values.std(ddof=1))
    error = sd / math.sqrt(n)
    half = quantile(n - 1, ALPHA) * error
    return Summary(mean=mean, sd=sd, n=n, interval=(mean - half, mean + half)), two_sided_p(mean / error, n - 1)


class TwoWay(Settings):
    """The variation of one system's scores over data order and dropout, from a full table of both.

    Attributes:
        data_seeds: the seeds of the data order, one for each row of the table.
        dropout_seeds: the seeds of dropout, one for each column.
        scores: the table, rows by data order.
        mean: of all scores.
        sd_over_data: of the means of the rows, with I - 1 in the denominator; None for one row.
        sd_over_dropout: of the means of the columns; None for one column.
        variance_of_data: estimated variance that the data order adds to a score; None without several rows and columns.
        variance_of_dropout: that dropout adds.
        variance_of_rest: of their interaction and everything else.
    """

    data_seeds: tuple[int, ...]
    dropout_seeds: tuple[int, ...]
    scores: list[list[FiniteFloat]]
    mean: FiniteFloat
    sd_over_data: FiniteFloat | None
    sd_over_dropout: FiniteFloat | None
    variance_of_data: FiniteFloat | None
    variance_of_dropout: FiniteFloat | None
    variance_of_rest: FiniteFloat | None


def two_way(scores: Mapping[tuple[int, int], float]) -> TwoWay:
    r"""Separates the variance of scores over data order i (of I) and dropout j (of J), one run for each pair.

    The model is :math:`x_{ij} = \mu + a_i + b_j + e_{ij}`, all random. With the mean squares of rows and columns and of
    the rest,

    .. math:: M_a = \frac{J}{I-1} \sum_i (\bar x_{i\cdot} - \bar x)^2, \quad
              M_b = \frac{I}{J-1} \sum_j (\bar x_{\cdot j} - \bar x)^2, \quad
              M_e = \frac{\sum_{ij} (x_{ij} - \bar x_{i\cdot} - \bar x_{\cdot j} + \bar x)^2}{(I-1)(J-1)},

    the variances are :math:`(M_a - M_e) / J`, :math:`(M_b - M_e) / I` and :math:`M_e` (Searle, Casella and McCulloch
    1992, Variance components, chapter 4). An estimate below 0 is reported as 0. A few seeds give rough estimates.

    Args:
        scores: by (seed of the data order, seed of dropout), for every pair of them.

    Example:
        >>> table = two_way({(1, 1): 70.0, (1, 2): 71.0, (2, 1): 74.0, (2, 2): 75.0})
        >>> table.variance_of_data, table.variance_of_dropout, table.variance_of_rest
        (8.0, 0.5, 0.0)
    """
    rows = tuple(sorted({row for row, _ in scores}))
    columns = tuple(sorted({column for _, column in scores}))
    table = np.array([[scores[row, column] for column in columns] for row in rows], dtype=np.float64)
    mean, by_row, by_column = float(table.mean()), table.mean(axis=1), table.mean(axis=0)
    several = len(rows) > 1 and len(columns) > 1
    of_data = of_dropout = of_rest = None
    if several:
        rest = table - by_row[:, None] - by_column[None, :] + mean
        of_rest = float((rest**2).sum() / ((len(rows) - 1) * (len(columns) - 1)))
        of_data = max(0.0, float(by_row.var(ddof=1)) - of_rest / len(columns))
        of_dropout = max(0.0, float(by_column.var(ddof=1)) - of_rest / len(rows))
    return TwoWay(
        data_seeds=rows,
        dropout_seeds=columns,
        scores=table.tolist(),
        mean=mean,
        sd_over_data=_sd(by_row),
        sd_over_dropout=_sd(by_column),
        variance_of_data=of_data,
        variance_of_dropout=of_dropout,
        variance_of_rest=of_rest,
    )


def _sd(means: Floats) -> float | None:
    return float(means.std(ddof=1)) if len(means) > 1 else None
