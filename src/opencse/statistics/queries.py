"""Means over queries, with intervals and paired tests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from opencse.arrays import Floats, Integers
from opencse.numerals import number_of
from opencse.statistics.difference import Difference, Interval
from opencse.statistics.seeds import summary, tested

FEWEST_QUERIES = 20
"""Queries from which a difference is decided: of fewer, one or two queries decide, and most are equal for both."""


class PairedQueries(Difference):
    """The difference of two systems evaluated on the same n queries; of fewer than `FEWEST_QUERIES`, no verdict.

    Attributes:
        n: number of queries.
    """

    n: int

    def over(self) -> str:
        """The number of queries."""
        return number_of(self.n, "query")

    def decides(self) -> bool:
        """Whether there are enough queries."""
        return self.n >= FEWEST_QUERIES

    def undecided(self) -> str:
        """The conclusion where there is none."""
        if self.decides():
            return super().undecided()
        return f"too few queries to tell, at least {FEWEST_QUERIES} are needed"


def intervals_of_means(values: Mapping[str, Floats]) -> dict[str, Interval | None]:
    """The 95% t-interval of the mean of each measure over queries, within the range of the measure.

    Args:
        values: (n,) values of the queries, from 0 to 100, by measure.

    Returns:
        By measure; None for fewer than two queries, or where all have the same value.

    Example:
        >>> low, high = intervals_of_means({"ndcg": np.array([0.0, 100.0] * 50)})["ndcg"]
        >>> round(low, 1), round(high, 1)
        (40.0, 60.0)
    """
    intervals = {name: summary(of_queries.tolist()).interval for name, of_queries in values.items()}
    return {name: ends and (max(0.0, ends[0]), min(100.0, ends[1])) for name, ends in intervals.items()}


def paired_queries(a: Floats, b: Floats) -> PairedQueries:
    """Tests the mean of a minus the mean of b by Student's paired t-test over queries.

    It is what the evaluation of retrieval uses most, and agrees with the paired bootstrap and the randomisation test
    where there are many queries (Smucker, Allan and Carterette 2007, "A comparison of statistical significance tests
    for information retrieval evaluation"); of few queries the bootstrap's intervals are too narrow.

    Args:
        a: (n,) the system's values on n queries.
        b: (n,) the baseline's.

    Returns:
        The difference; without interval and p for a single query, or differences that do not vary.

    Example:
        >>> a, b = np.array([60.0, 70.0, 80.0, 50.0] * 10), np.array([50.0, 70.0, 60.0, 50.0] * 10)
        >>> difference = paired_queries(a, b)
        >>> difference.difference, difference.direction(), difference.over()
        (7.5, 'better', '40 queries')
    """
    statistics, p = tested(a - b, float(max(np.abs(a).max(), np.abs(b).max())))
    return PairedQueries(difference=statistics.mean, interval=statistics.interval, p=p, n=len(a))


@dataclass(frozen=True)
class MeanDifference:
    """A mean difference between two systems on the same questions.

    Attributes:
        value: mean of the second minus mean of the first.
        error: its standard error.
    """

    value: float
    error: float

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval, by the normal distribution."""
        return self.value - 1.96 * self.error, self.value + 1.96 * self.error


def grouped_difference(
    before: Floats, after: Floats, groups: Integers, kinds: Integers | None = None
) -> MeanDifference:
    r"""Returns the mean of ``after - before`` with a standard error that allows for questions of one document.

    Questions of one group are not independent of each other. With differences :math:`d_i`, their mean :math:`\bar d`
    over n questions and G groups g (Liang and Zeger 1986):

    .. math:: \text{SE} = \frac1n \sqrt{\frac{G}{G - 1} \sum_g \Big( \sum_{i \in g} (d_i - \bar d) \Big)^2}

    Where questions are of several kinds, each kind's own mean is subtracted: how far the means of the kinds are from
    each other is no error of their average.

    Args:
        before: (n,) values of one system.
        after: (n,) values of the other, on the same questions.
        groups: (n,) number of the document that each question comes from.
        kinds: (n,) number of the kind of each question, from 0; None where there is one kind.

    Returns:
        The mean and its error, which is infinite where all questions are of one group.

    Example:
        >>> before, after = np.array([50.0, 40.0, 30.0, 60.0]), np.array([55.0, 45.0, 30.0, 61.0])
        >>> difference = grouped_difference(before, after, groups=np.array([0, 0, 1, 2]))
        >>> round(difference.value, 2), round(difference.error, 2)
        (2.75, 1.7)
    """
    differences = after - before
    mean = math.fsum(differences) / len(differences)
    group_numbers = np.unique(groups, return_inverse=True)[1]
    centres: Floats = np.full(len(differences), mean)
    if kinds is not None:
        centres = (np.bincount(kinds, weights=differences) / np.maximum(np.bincount(kinds), 1))[kinds]
    sums = np.bincount(group_numbers, weights=differences - centres)
    if len(sums) < 2:
        return MeanDifference(mean, math.inf)
    error = math.sqrt(len(sums) / (len(sums) - 1) * float(np.square(sums).sum())) / len(differences)
    return MeanDifference(mean, error)
