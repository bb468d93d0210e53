"""From which cosine on are two texts similar? A threshold from labelled pairs, and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat

from opencse.analysis.tiles import Floats
from opencse.errors import UserError
from opencse.settings import Settings
from opencse.statistics.difference import ALPHA, Interval

Choose = Callable[[Floats, Floats], int | None]
"""(hits, taken), both (G,), pairs at and above each distinct cosine -> which to cut below, or None."""


class Threshold(Settings):
    """A cosine at and above which a pair is called similar, and what that gives on the labelled pairs.

    It was chosen on these very pairs, so precision, recall and F1 are somewhat higher than on others.

    Attributes:
        rule: ``best_f1``, or ``precision``: the highest recall at the wanted precision.
        wanted: the precision asked for; None for ``best_f1``.
        cosine: the threshold.
        interval: of the cosine, 95%, percentiles of the bootstrap over pairs; None where an end has no threshold.
        precision: of the pairs called similar, the part that is.
        recall: of the pairs labelled similar, the part called so.
        f1: harmonic mean of the two.
        pairs: labelled pairs.
        alike: those labelled similar.
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


def best_f1(
    cosines: NDArray[np.floating], alike: NDArray[np.bool_], *, resamples: int = 1000, seed: int = 0
) -> Threshold:
    r"""The threshold with the best F1.

    .. math:: P = \frac{|\{i : c_i \ge \theta, y_i = 1\}|}{|\{i : c_i \ge \theta\}|}, \quad
              R = \frac{|\{i : c_i \ge \theta, y_i = 1\}|}{|\{i : y_i = 1\}|}, \quad F_1 = \frac{2 P R}{P + R}

    Of several with one F1 the highest is taken. It stands half way between the lowest cosine it lets in and the next
    lower one. The interval is of the percentiles 2.5 and 97.5 of the threshold over ``resamples`` draws of n of the n
    pairs with replacement, each with the threshold chosen anew (Efron and Tibshirani 1993, ch. 13).

    Args:
        cosines: (n,), in [-1, 1].
        alike: (n,), the labels.
        resamples: of the bootstrap, at least 1.
        seed: of an own generator.

    Raises:
        UserError: if no pair, or every pair, is labelled similar.
        ValueError: for arrays that are not (n,) of one length, labels that are not bool, cosines that are not finite,
            or ``resamples`` below 1.
    """
    labelled = _Labelled.of(cosines, alike)
    best = labelled.cut(_by_f1)
    if best is None:
        raise RuntimeError("pairs with a label of each kind have no best F1")
    return labelled.threshold(best, _by_f1, "best_f1", None, resamples, seed)


def at_precision(
    cosines: NDArray[np.floating],
    alike: NDArray[np.bool_],
    precision: float,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> Threshold:
    """The threshold with the highest recall among those that reach a wanted precision; see ``best_f1``.

    In a resample that reaches the precision nowhere, the threshold counts as above all cosines.

    Args:
        cosines: (n,), in [-1, 1].
        alike: (n,), the labels.
        precision: wanted, above 0 and at most 1.
        resamples: of the bootstrap, at least 1.
        seed: of an own generator.

    Raises:
        UserError: if no threshold reaches that precision (the highest one is told), the precision is not in (0, 1],
            or no pair, or every pair, is labelled similar.
        ValueError: as ``best_f1``.
    """
    if not 0 < precision <= 1:
        raise UserError(f"a wanted precision is above 0 and at most 1, not {precision}")
    labelled, choose = _Labelled.of(cosines, alike), _by_precision(precision)
    best = labelled.cut(choose)
    if best is None:
        hits, taken, _ = labelled.counts()
        raise UserError(
            f"no threshold reaches precision {precision:g} on these {len(labelled.group):,} pairs (the highest is "
            f"{(hits / taken).max():.3f}); ask for less, or label more pairs"
        )
    return labelled.threshold(best, choose, "precision", precision, resamples, seed)


def _by_f1(hits: Floats, taken: Floats) -> int | None:
    # F1 = 2 hits / (taken + alike); the last of hits is all positives. argmax gives the first: the highest cosine.
    return int(np.argmax(2 * hits / (taken + hits[-1]))) if hits[-1] > 0 else None


def _by_precision(wanted: float) -> Choose:
    def choose(hits: Floats, taken: Floats) -> int | None:
        enough = np.flatnonzero((hits > 0) & (hits / taken >= wanted))
        return int(enough[np.argmax(hits[enough])]) if len(enough) else None

    return choose


@dataclass(frozen=True)
class _Labelled:
    """Pairs in groups of one cosine.

    Attributes:
        values: the distinct cosines, falling, (G,).
        group: of each pair, (n,).
        alike: labels, (n,).
    """

    values: Floats
    group: NDArray[np.intp]
    alike: NDArray[np.bool_]

    @classmethod
    def of(cls, cosines: NDArray[np.floating], alike: NDArray[np.bool_]) -> _Labelled:
        wide = np.asarray(cosines, dtype=np.float64)
        if wide.ndim != 1 or wide.shape != alike.shape:
            raise ValueError(f"two (n,) arrays of one length are expected, got {wide.shape} and {alike.shape}")
        if alike.dtype != np.bool_ or not np.isfinite(wide).all():
            raise ValueError(f"bool labels and finite cosines are expected, got labels of type {alike.dtype}")
        if not alike.any() or alike.all():
            raise UserError(
                f"{int(alike.sum()):,} of {len(alike):,} labelled pairs are similar; a threshold needs both kinds"
            )
        rising, group = np.unique(wide, return_inverse=True)
        return cls(rising[::-1], len(rising) - 1 - group, alike)

    def counts(self, drawn: NDArray[np.integer] | slice = slice(None)) -> tuple[Floats, Floats, Floats]:
        """At and above each distinct cosine drawn: positives, pairs; and these cosines."""
        group = self.group[drawn]
        taken = np.bincount(group, minlength=len(self.values))
        hits = np.bincount(group[self.alike[drawn]], minlength=len(self.values))
        there = taken > 0
        return hits[there].cumsum().astype(np.float64), taken[there].cumsum().astype(np.float64), self.values[there]

    def cut(self, choose: Choose, drawn: NDArray[np.integer] | slice = slice(None)) -> tuple[float, int, int] | None:
        """The threshold that ``choose`` finds of those drawn, the positives at and above it, and all pairs there."""
        hits, taken, values = self.counts(drawn)
        last = choose(hits, taken)
        if last is None:
            return None
        cosine = values[last]
        if last + 1 < len(values):
            middle = (cosine + values[last + 1]) / 2
            cosine = middle if middle > values[last + 1] else cosine  # neighbours in float64 have no middle
        return float(cosine), int(hits[last]), int(taken[last])

    def threshold(
        self,
        best: tuple[float, int, int],
        choose: Choose,
        rule: Literal["best_f1", "precision"],
        wanted: float | None,
        resamples: int,
        seed: int,
    ) -> Threshold:
        """``best``, the cut that ``choose`` finds, with its interval."""
        if resamples < 1:
            raise ValueError(f"resamples is {resamples}, at least 1 is expected")
        n, generator = len(self.group), np.random.default_rng(seed)
        cuts = [self.cut(choose, generator.integers(0, n, size=n)) for _ in range(resamples)]
        places = [math.inf if cut is None else cut[0] for cut in cuts]
        # Order statistics, not the mean of two: one of them may be infinite.
        lower = float(np.quantile(places, ALPHA / 2, method="lower"))
        upper = float(np.quantile(places, 1 - ALPHA / 2, method="higher"))
        (cosine, hits, taken), alike = best, int(self.alike.sum())
        return Threshold(
            rule=rule,
            wanted=wanted,
            cosine=cosine,
            interval=(lower, upper) if math.isfinite(upper) else None,
            precision=hits / taken,
            recall=hits / alike,
            f1=2 * hits / (taken + alike),
            pairs=n,
            alike=alike,
            resamples=resamples,
            seed=seed,
        )
