"""Fits the weight of the vectors in a hybrid search to questions with known answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from opencse.arrays import Floats, Integers
from opencse.modules.hybrid_weight import DEFAULT_WEIGHT, HybridWeight
from opencse.statistics.grouped import MeanDifference, grouped_difference

SHARES = np.round(np.linspace(0, 1, 21), 2)
"""The weights that are tried."""
TRUST = 50
"""Of n questions the fit counts n / (n + `TRUST`), and the default the rest."""
OF_TEXT = 0.5
"""Questions that are made of the text itself count half as much: people put their questions in other words."""
_RESAMPLES = 500


@dataclass(frozen=True)
class ShareCurve:
    """The scores of n questions of one kind, for each weight of the vectors.

    Attributes:
        values: (n, 21) measure x 100 of each question at each of `SHARES`.
        units: (n,) document that each question comes from; questions of one document are not independent.
        of_people: whether people asked these questions, and they are not made of the text.
        part: of this kind among all kinds, with a sum of 1.
    """

    values: Floats
    units: Integers
    of_people: bool
    part: float = 1.0

    @property
    def trust(self) -> float:
        """How far the weight moves from the default towards the best one for these questions, from 0 to 1."""
        count = len(np.unique(self.units))
        return count / (count + TRUST) * (1 if self.of_people else OF_TEXT)


@dataclass(frozen=True)
class FittedWeight:
    """A fitted weight, and what hybrid search gains with it on the questions that it was fitted on.

    Attributes:
        weight: of the vectors.
        by_share: (21,) mean score of all questions at each of `SHARES`.
        questions: number of questions.
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


def fit_weight(curves: Sequence[ShareCurve], source: str) -> FittedWeight:
    r"""Fits the weight of the vectors: near the best one for the questions, and between it and the default.

    For kind k, :math:`\bar w_k` is the mean of the best weights in resamples of its documents, which is stable where
    the curve is flat. With the kinds' parts :math:`p_k` and trust :math:`t_k`,

    .. math:: w = \tfrac12 + \sum_k p_k\,t_k\,\big(\bar w_k - \tfrac12\big), \qquad t_k = \frac{n_k}{n_k + 50}
              \cdot \begin{cases} 1 & \text{questions of people} \\ \tfrac12 & \text{questions made of the text}
              \end{cases}

    so that a small or unusual set of questions cannot move it far. Last, where vectors alone are significantly better
    than w, it moves to the nearest weight that is not significantly worse than them; likewise BM25 alone, but only on
    questions of people, since the words of a text favour BM25.

    Args:
        curves: at least one.
        source: what the questions are, for the user.

    Returns:
        The weight, rounded to two digits.

    Example:
        >>> best_at_03 = 60 - 40 * (SHARES - 0.3) ** 2 + np.zeros((200, 1))
        >>> fit_weight([ShareCurve(best_at_03, np.arange(200), of_people=True)], "200 queries").weight
        HybridWeight(value=0.34, source='200 queries')
    """
    weight = DEFAULT_WEIGHT
    for number, curve in enumerate(curves):
        weight += curve.part * curve.trust * (_best_share(curve, seed=number) - DEFAULT_WEIGHT)
    values, units, _ = _pooled(curves)
    weight = _not_worse_than_end(weight, values, units, end=-1)
    of_people = [curve for curve in curves if curve.of_people]
    if of_people:
        weight = _not_worse_than_end(weight, *_pooled(of_people)[:2], end=0)
    weight = round(float(weight), 2)
    at_weight = values[:, _nearest(weight)]
    better = 0 if values[:, 0].mean() > values[:, -1].mean() else -1
    difference = grouped_difference(values[:, better], at_weight, units)
    return FittedWeight(HybridWeight(weight, source), values.mean(axis=0), len(values), difference)


def curves_of(sets: Iterable[tuple[Floats, Integers, bool]], parts: Sequence[float] = ()) -> list[ShareCurve]:
    """Makes curves of values, units and whether people asked; kinds count equally unless ``parts`` say otherwise."""
    every = list(sets)
    shares = parts or (1 / len(every),) * len(every)
    return [
        ShareCurve(values, units, of_people, part)
        for (values, units, of_people), part in zip(every, shares, strict=True)
    ]


def _best_share(curve: ShareCurve, seed: int) -> float:
    """The mean of the best weights over resamples of the documents; equal scores share it."""
    _, unit = np.unique(curve.units, return_inverse=True)
    count = int(unit.max()) + 1
    sums = np.zeros((count, len(SHARES)))
    np.add.at(sums, unit, curve.values)
    draws = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=_RESAMPLES)
    totals = draws @ sums
    best = totals >= totals.max(axis=1, keepdims=True) - 1e-9
    return float(((best * SHARES).sum(axis=1) / best.sum(axis=1)).mean())


def _pooled(curves: Sequence[ShareCurve]) -> tuple[Floats, Integers, float]:
    """Values and units of all questions, scaled so that their mean is the mean over kinds by their parts."""
    total, parts = sum(len(curve.values) for curve in curves), sum(curve.part for curve in curves)
    scaled = [curve.values * (total * curve.part / parts / len(curve.values)) for curve in curves]
    return np.concatenate(scaled), np.concatenate([curve.units for curve in curves]), parts


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
