"""Thresholds: the cosine from which two texts count as similar, chosen on labelled pairs, with its uncertainty."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field, FiniteFloat

from opencse.arrays import Flags, Floats, Integers, Vectors
from opencse.errors import UserError
from opencse.numerals import number_of
from opencse.settings import Settings
from opencse.statistics.difference import ALPHA, Interval

Rule = Callable[[Floats, Floats], int | None]
"""(hits, accepted), both (G,): similar pairs, and all pairs, at and above each distinct cosine, from the highest on ->
the number of the lowest cosine to accept, or None."""


class Threshold(Settings):
    """A cosine at and above which a pair is called similar, and what that gives on the labelled pairs.

    It was selected on these very pairs, so precision, recall and F1 are somewhat higher than on others.

    Attributes:
        rule: ``best_f1``, or ``precision``: the highest recall at the requested precision.
        wanted: the requested precision; None for ``best_f1``.
        cosine: the threshold.
        interval: of the cosine, 95%, percentiles of the bootstrap over pairs; None where an end has no threshold.
        precision: of the pairs called similar, the part that is.
        recall: of the pairs labelled similar, the part called so.
        f1: harmonic mean of the two.
        pairs: labelled pairs; the next field counts those that are labelled similar.
        resamples: of the bootstrap.
        seed: of its draws.
    """

    rule: Literal["best_f1", "precision"]
    wanted: float | None
    cosine: FiniteFloat
    interval: Interval | None
    precision: float = Field(ge=0, le=1)
    recall: float = Field(ge=0, le=1)
    f1: float = Field(ge=0, le=1)
    pairs: int
    alike: int
    resamples: int
    seed: int


def best_f1(cosines: Vectors, similar: Flags, *, resamples: int = 1000, seed: int = 0) -> Threshold:
    r"""Finds the threshold with the best F1.

    .. math:: P = \frac{|\{i : c_i \ge \theta, y_i = 1\}|}{|\{i : c_i \ge \theta\}|}, \quad
              R = \frac{|\{i : c_i \ge \theta, y_i = 1\}|}{|\{i : y_i = 1\}|}, \quad F_1 = \frac{2 P R}{P + R}

    Of several with one F1 the highest is taken. It is half way between the lowest cosine that it accepts and the next
    lower one. The interval is of the percentiles 2.5 and 97.5 of the threshold over ``resamples`` draws of n of the n
    pairs with replacement, each with its own threshold (Efron and Tibshirani 1993, ch. 13).

    Args:
        cosines: (n,), in [-1, 1].
        similar: (n,), True for pairs that are labelled similar.
        resamples: of the bootstrap, at least 1.
        seed: of a separate generator.

    Raises:
        UserError: if no pair, or every pair, is labelled similar.
        ValueError: for arrays that are not (n,) of one length, labels that are not bool, cosines that are not finite,
            or ``resamples`` below 1.

    Example:
        >>> cosines = np.array([0.9, 0.8, 0.6, 0.5, 0.2])
        >>> threshold = best_f1(cosines, np.array([True, True, False, True, False]), resamples=20)
        >>> round(threshold.cosine, 2), threshold.precision, threshold.recall
        (0.35, 0.75, 1.0)
    """
    labelled = _Labelled.of(cosines, similar)
    best = labelled.cut(_by_f1)
    if best is None:
        raise RuntimeError("pairs with a label of each kind have no best F1")
    return labelled.threshold(best, _by_f1, "best_f1", None, resamples, seed)


def at_precision(
    cosines: Vectors,
    similar: Flags,
    precision: float,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> Threshold:
    """Finds the threshold with the highest recall among those that reach a precision; see ``best_f1``.

    In a resample that reaches the precision nowhere, the threshold counts as above all cosines.

    Args:
        cosines: (n,), in [-1, 1].
        similar: (n,), True for pairs that are labelled similar.
        precision: at least, above 0 and at most 1.
        resamples: of the bootstrap, at least 1.
        seed: of a separate generator.

    Raises:
        UserError: if no threshold reaches that precision (the message has the highest one), the precision is not in
            (0, 1], or no pair, or every pair, is labelled similar.
        ValueError: as ``best_f1``.

    Example:
        >>> cosines = np.array([0.9, 0.8, 0.6, 0.5, 0.2])
        >>> threshold = at_precision(cosines, np.array([True, True, False, True, False]), 1.0, resamples=20)
        >>> round(threshold.cosine, 2), round(threshold.recall, 2)
        (0.7, 0.67)
    """
    if not 0 < precision <= 1:
        raise UserError(f"precision is above 0 and at most 1, not {precision}")
    labelled, choose = _Labelled.of(cosines, similar), _by_precision(precision)
    best = labelled.cut(choose)
    if best is None:
        hits, accepted, _ = labelled.counts()
        raise UserError(
            f"no threshold reaches precision {precision:g} on these {number_of(len(labelled.group), 'pair')} (the "
            f"highest is {(hits / accepted).max():.3f}); give a lower precision, or label more pairs"
        )
    return labelled.threshold(best, choose, "precision", precision, resamples, seed)


def _by_f1(hits: Floats, accepted: Floats) -> int | None:
    # F1 = 2 hits / (accepted + positives), the last of hits being all positives. argmax takes the highest cosine.
    return int(np.argmax(2 * hits / (accepted + hits[-1]))) if hits[-1] > 0 else None


def _by_precision(precision: float) -> Rule:
    def choose(hits: Floats, accepted: Floats) -> int | None:
        enough = np.flatnonzero((hits > 0) & (hits / accepted >= precision))
        return int(enough[np.argmax(hits[enough])]) if len(enough) else None

    return choose


@dataclass(frozen=True)
class _Labelled:
    """Labelled pairs in groups of equal cosines.

    Attributes:
        values: the distinct cosines, falling, (G,).
        group: of each pair, (n,).
        positive: labels, (n,).
    """

    values: Floats
    group: Integers
    positive: Flags

    @classmethod
    def of(cls, cosines: Vectors, similar: Flags) -> _Labelled:
        wide = np.asarray(cosines, dtype=np.float64)
        if wide.ndim != 1 or wide.shape != similar.shape:
            raise ValueError(f"two (n,) arrays of one length are expected, got {wide.shape} and {similar.shape}")
        if similar.dtype != np.bool_ or not np.isfinite(wide).all():
            raise ValueError(f"bool labels and finite cosines are expected, got labels of type {similar.dtype}")
        if not similar.any() or similar.all():
            raise UserError(
                f"{int(similar.sum()):,} of {len(similar):,} labelled pairs are similar; a threshold needs both kinds"
            )
        rising, group = np.unique(wide, return_inverse=True)
        return cls(rising[::-1], len(rising) - 1 - group, similar)

    def counts(self, rows: Integers | slice = slice(None)) -> tuple[Floats, Floats, Floats]:
        """Counts positives and pairs at and above each distinct cosine of the ``rows``; also returns these cosines."""
        group = self.group[rows]
        accepted = np.bincount(group, minlength=len(self.values))
        hits = np.bincount(group[self.positive[rows]], minlength=len(self.values))
        occurs = accepted > 0
        return (
            hits[occurs].cumsum().astype(np.float64),
            accepted[occurs].cumsum().astype(np.float64),
            self.values[occurs],
        )

    def cut(self, choose: Rule, rows: Integers | slice = slice(None)) -> tuple[float, int, int] | None:
        """Returns the threshold that ``choose`` selects on the ``rows``, and the positives and pairs it accepts."""
        hits, accepted, values = self.counts(rows)
        last = choose(hits, accepted)
        if last is None:
            return None
        cosine = values[last]
        if last + 1 < len(values):
            middle = (cosine + values[last + 1]) / 2
            cosine = middle if middle > values[last + 1] else cosine  # neighbours in float64 have no middle
        return float(cosine), int(hits[last]), int(accepted[last])

    def threshold(
        self,
        best: tuple[float, int, int],
        choose: Rule,
        rule: Literal["best_f1", "precision"],
        precision: float | None,
        resamples: int,
        seed: int,
    ) -> Threshold:
        """Makes the record of ``best``, the cut that ``choose`` selects, with its interval."""
        if resamples < 1:
            raise ValueError(f"resamples is {resamples}, at least 1 is expected")
        n, generator = len(self.group), np.random.default_rng(seed)
        cuts = [self.cut(choose, generator.integers(0, n, size=n)) for _ in range(resamples)]
        thresholds = [math.inf if cut is None else cut[0] for cut in cuts]
        # Order statistics, not the mean of two: one of them may be infinite.
        lower = float(np.quantile(thresholds, ALPHA / 2, method="lower"))
        upper = float(np.quantile(thresholds, 1 - ALPHA / 2, method="higher"))
        (cosine, hits, accepted), similar = best, int(self.positive.sum())
        return Threshold(
            rule=rule,
            wanted=precision,
            cosine=cosine,
            interval=(lower, upper) if math.isfinite(upper) else None,
            precision=hits / accepted,
            recall=hits / similar,
            f1=2 * hits / (accepted + similar),
            pairs=n,
            alike=similar,
            resamples=resamples,
            seed=seed,
        )
