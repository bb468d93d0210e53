"""Intervals of means over queries, and paired tests of their differences, by Student's t."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from opencse.arrays import Floats
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


def intervals_of_means(values: Mapping[str, Floats], most: float = 100.0) -> dict[str, Interval | None]:
    """The 95% t-interval of the mean of each measure over queries, within the range of the measure.

    Args:
        values: (n,) values of the queries, from 0 to ``most``, by measure.
        most: the largest possible value.

    Returns:
        By measure; None for fewer than two queries, or where all have the same value.

    Example:
        >>> low, high = intervals_of_means({"ndcg": np.array([0.0, 100.0] * 50)})["ndcg"]
        >>> round(low, 1), round(high, 1)
        (40.0, 60.0)
    """
    intervals = {name: summary(of_queries.tolist()).interval for name, of_queries in values.items()}
    return {name: ends and (max(0.0, ends[0]), min(most, ends[1])) for name, ends in intervals.items()}


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

    Raises:
        ValueError: for arrays of different lengths.

    Example:
        >>> a, b = np.array([60.0, 70.0, 80.0, 50.0] * 10), np.array([50.0, 70.0, 60.0, 50.0] * 10)
        >>> difference = paired_queries(a, b)
        >>> difference.difference, difference.direction(), difference.over()
        (7.5, 'better', '40 queries')
    """
    if a.shape != b.shape or a.ndim != 1:
        raise ValueError(f"two (n,) arrays of one length are expected, got {a.shape} and {b.shape}")
    statistics, p = tested(a - b, float(max(np.abs(a).max(), np.abs(b).max())))
    return PairedQueries(difference=statistics.mean, interval=statistics.interval, p=p, n=len(a))
