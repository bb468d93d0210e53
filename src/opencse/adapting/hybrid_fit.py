"""Fits the weight of the vectors in a hybrid search to people's queries with known answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opencse.arrays import Floats, Integers
from opencse.modules.hybrid_weight import HybridWeight
from opencse.statistics.grouped import MeanDifference, grouped_difference

SHARES = np.round(np.linspace(0, 1, 21), 2)
"""The weights that are tried."""
TRUST = 50
"""Of n queries the fit counts n / (n + `TRUST`), and the default the rest."""
_RESAMPLES = 500


@dataclass(frozen=True)
class FittedWeight:
    """A fitted weight, and what hybrid search gains with it on the queries that it was fitted on.

    Attributes:
        weight: of the vectors.
        by_share: (21,) mean score of all queries at each of `SHARES`.
        questions: number of queries.
        over_better: difference of hybrid search from the better of its two parts.
    """

    weight: HybridWeight
    by_share: Floats
    questions: int
    over_better: MeanDifference

    def line(self, measure: str) -> str:
        """Describes the weight and the scores in one line, for the user."""
        score = self.by_share[_nearest(self.weight.value)]
        low, high = self.over_better.interval
        return (
            f"hybrid     weight of the vectors {self.weight}: {measure} {score:.2f}, vectors alone "
            f"{self.by_share[-1]:.2f}, BM25 alone {self.by_share[0]:.2f} ({self.over_better.value:+.2f} over the "
            f"better one, 95% interval {low:+.2f} to {high:+.2f})"
        )

    def record(self) -> dict[str, object]:
        """Plain values for JSON: weight, source, questions, the scores by weight, and the gain over the better part."""
        return {
            "weight": self.weight.value,
            "source": self.weight.source,
            "questions": self.questions,
            "scores": dict(zip(map(str, SHARES.tolist()), self.by_share.tolist(), strict=True)),
            "over_better": {"difference": self.over_better.value, "interval": list(self.over_better.interval)},
        }


def fit_weight(values: Floats, units: Integers, source: str, default: float) -> FittedWeight:
    r"""Fits the weight of the vectors: near the best one for people's queries, and between it and the default.

    :math:`\bar w` is the mean of the best weights in resamples of the n queries, which is stable where the curve is
    flat, and

    .. math:: w = w_0 + \frac{n}{n + 50}\,(\bar w - w_0)

    so that a small or unusual set of queries cannot move it far. Last, where vectors alone or BM25 alone are
    significantly better than w, it moves to the nearest weight that is not significantly worse than them.

    Args:
        values: (n, 21) measure x 100 of each query at each of `SHARES`.
        units: (n,) what each query comes from; queries of one unit are not independent.
        source: what the queries are, for the user.
        default: w_0, the weight without queries.

    Returns:
        The weight, rounded to two digits.

    Example:
        >>> best_at_03 = 60 - 40 * (SHARES - 0.3) ** 2 + np.zeros((200, 1))
        >>> fit_weight(best_at_03, np.arange(200), "200 queries", 0.5).weight
        HybridWeight(value=0.34, source='200 queries')
    """
    count = len(np.unique(units))
    weight = default + count / (count + TRUST) * (_best_share(values, units) - default)
    for end in (-1, 0):
        weight = _not_worse_than_end(weight, values, units, end=end)
    weight = round(float(weight), 2)
    better = 0 if values[:, 0].mean() > values[:, -1].mean() else -1
    difference = grouped_difference(values[:, better], values[:, _nearest(weight)], units)
    return FittedWeight(HybridWeight(weight, source), values.mean(axis=0), len(values), difference)


def _best_share(values: Floats, units: Integers) -> float:
    """The mean of the best weights over resamples of the units; equal scores share it."""
    _, unit = np.unique(units, return_inverse=True)
    count = int(unit.max()) + 1
    sums = np.zeros((count, len(SHARES)))
    np.add.at(sums, unit, values)
    draws = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), size=_RESAMPLES)
    totals = draws @ sums
    best = totals >= totals.max(axis=1, keepdims=True) - 1e-9
    return float(((best * SHARES).sum(axis=1) / best.sum(axis=1)).mean())


def _not_worse_than_end(weight: float, values: Floats, units: Integers, *, end: int) -> float:
    """The weight nearest to ``weight``, towards an end, whose scores are not significantly worse than the end's."""
    shares = SHARES[weight < SHARES] if end else SHARES[weight > SHARES][::-1]
    for share in (weight, *shares):
        difference = grouped_difference(values[:, _nearest(share)], values[:, end], units)
        if not difference.interval[0] > 0:
            return float(share)
    return float(SHARES[end])


def _nearest(weight: float) -> int:
    """The number of the share nearest to a weight."""
    return int(np.abs(SHARES - weight).argmin())
