"""Intervals of means over queries, and paired tests of their differences, by resampling the queries."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from opencse.arrays import Floats
from opencse.numerals import number_of
from opencse.statistics.difference import ALPHA, Interval, ResampledDifference

RESAMPLES = 10_000
FEWEST_QUERIES = 20
"""Queries from which a difference is decided: of fewer, the bootstrap calls noise a difference twice as often as 5%."""
_BLOCK = 1 << 22
"""Values drawn at a time, so that memory stays bounded."""


class PairedQueries(ResampledDifference):
    """The difference of two systems evaluated on the same n queries; of fewer than `FEWEST_QUERIES`, no verdict."""

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


def resampled_means(values: Floats, resamples: int = RESAMPLES, seed: int = 0) -> Floats:
    """The means of resamples of the rows, each as many rows drawn with replacement; the columns stay together.

    Args:
        values: (n, c) of n queries.
        resamples: B.
        seed: of the draws, which depend on n, B and the seed alone.

    Returns:
        (B, c).

    Example:
        >>> float(resampled_means(np.array([[1.0], [3.0]]), resamples=200).mean().round())
        2.0
    """
    n = len(values)
    generator = np.random.default_rng(seed)
    rows = max(1, _BLOCK // n)
    blocks = []
    for start in range(0, resamples, rows):
        draws = generator.integers(0, n, size=(min(rows, resamples - start), n))
        cells = draws + n * np.arange(len(draws))[:, None]
        blocks.append(np.bincount(cells.ravel(), minlength=n * len(draws)).reshape(len(draws), n) @ values / n)
    return np.concatenate(blocks)


def intervals_of_means(
    values: Mapping[str, Floats], resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Interval | None]:
    """The 95% bootstrap interval (percentiles 2.5 and 97.5) of the mean of each measure, over the same resamples.

    Args:
        values: (n,) values of the queries, by measure.
        resamples: B.
        seed: of the draws.

    Returns:
        By measure; None for fewer than two queries.

    Example:
        >>> low, high = intervals_of_means({"ndcg": np.array([0.0, 100.0] * 50)})["ndcg"]
        >>> 38 < low < 42 < 58 < high < 62
        True
    """
    columns = np.stack([*values.values()], axis=1)
    if len(columns) < 2:
        return dict.fromkeys(values)
    ends = np.quantile(resampled_means(columns, resamples, seed), [ALPHA / 2, 1 - ALPHA / 2], axis=0)
    return {name: (float(low), float(high)) for name, low, high in zip(values, *ends, strict=True)}


def paired_queries(a: Floats, b: Floats, resamples: int = RESAMPLES, seed: int = 0) -> PairedQueries:
    r"""Tests the mean of a minus the mean of b by resampling the queries; p as in `paired_bootstrap`.

    Args:
        a: (n,) the system's values on n queries.
        b: (n,) the baseline's.
        resamples: B.
        seed: of the draws.

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
    observed = float(np.mean(a - b))
    n = len(a)
    if n < 2:
        return PairedQueries(difference=observed, interval=None, p=None, n=n, resamples=0, seed=seed)
    resampled = resampled_means((a - b)[:, None], resamples, seed)[:, 0]
    low, high = np.quantile(resampled, [ALPHA / 2, 1 - ALPHA / 2])
    beyond = int((np.abs(resampled - observed) >= abs(observed)).sum())
    return PairedQueries(
        difference=observed,
        interval=(float(low), float(high)),
        p=(1 + beyond) / (1 + resamples),
        n=n,
        resamples=resamples,
        seed=seed,
    )
