"""Whether a model prefers pairs of similar length or with common words, and the cosines by gold score."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from pydantic import FiniteFloat

from opencse.arrays import Floats, Vectors
from opencse.errors import UserError
from opencse.evaluation import ScoredPairs, spearman
from opencse.settings import Settings
from opencse.statistics.correlation import mean_ranks


def plain_words(text: str) -> list[str]:
    """Splits a text at white space into lower-cased words; punctuation next to a word belongs to it.

    Example:
        >>> plain_words("A cat sleeps.")
        ['a', 'cat', 'sleeps.']
    """
    return text.lower().split()


def bag_f1(first: Iterable[str], second: Iterable[str]) -> float:
    r"""Computes F1 between two bags of words, in [0, 1] (SimCSE, section 4).

    .. math:: F_1(A, B) = \frac{2\, |A \cap B|}{|A| + |B|}

    A and B are multisets: a word that occurs twice on both sides counts twice.

    Example:
        >>> bag_f1(["a", "cat", "sleeps"], ["a", "cat"])
        0.8
    """
    one, two = Counter(first), Counter(second)
    size = one.total() + two.total()
    return 2 * (one & two).total() / size


EDGES = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)
POINTS = 201


class GroupDensity(Settings):
    """The cosines of the pairs of one group.

    Attributes:
        lower: lowest gold score of the group.
        upper: where the next group begins; in the last group a score that belongs to it.
        n: pairs.
        mean: of their cosines; None without pairs, as are the next three.
        sd: of their cosines (divided by n - 1); 0 for one pair.
        bandwidth: of the kernel.
        density: at each point of the grid.
    """

    lower: FiniteFloat
    upper: FiniteFloat
    n: int
    mean: FiniteFloat | None
    sd: FiniteFloat | None
    bandwidth: FiniteFloat | None
    density: list[FiniteFloat] | None


class Densities(Settings):
    """The groups in rising gold score, and the cosines (the grid) at which their densities are given."""

    grid: list[FiniteFloat]
    groups: list[GroupDensity]


def densities(cosines: Vectors, gold: Vectors, *, edges: Sequence[float] = EDGES, points: int = POINTS) -> Densities:
    r"""Estimates the density of the cosines in each group of gold scores (SimCSE, Fig. G.1: five groups of STS-B).

    .. math:: p(x) = \frac1{n h} \sum_i \varphi\Big(\frac{x - c_i}{h}\Big), \qquad h = \max(s\, n^{-1/5}, \delta/2)

    a Gaussian kernel with Scott's bandwidth (scipy's ``gaussian_kde``), s the group's standard deviation; half the
    grid's step :math:`\delta` is the least, so that no group falls between two points. A kernel near 1 or -1 reaches
    beyond it, so the density on the grid may sum to less than 1. The paper gives neither its bandwidth nor the
    group of a score on an edge: here the one above, and for the highest edge the last.

    Args:
        cosines: (n,), in [-1, 1].
        gold: (n,) gold scores, within the edges.
        edges: of the groups, rising; 0, 1, ..., 5 for STS.
        points: of the grid, evenly from -1 to 1.

    Example:
        >>> groups = densities(np.array([0.1, 0.3, 0.8]), np.array([1.5, 1.0, 5.0])).groups
        >>> [(group.n, group.mean) for group in groups if group.n]
        [(2, 0.2), (1, 0.8)]
    """
    values, scores = np.asarray(cosines, dtype=np.float64), np.asarray(gold, dtype=np.float64)
    bounds = np.asarray(edges, dtype=np.float64)
    grid = np.linspace(-1, 1, points)
    # A score on the highest edge belongs to the last group.
    group = np.minimum(np.searchsorted(bounds, scores, side="right") - 1, len(bounds) - 2)
    groups = [
        _group(values[group == number], (float(bounds[number]), float(bounds[number + 1])), grid)
        for number in range(len(bounds) - 1)
    ]
    return Densities(grid=grid.tolist(), groups=groups)


def _group(cosines: Floats, bounds: tuple[float, float], grid: Floats) -> GroupDensity:
    lower, upper = bounds
    n = len(cosines)
    if not n:
        return GroupDensity(lower=lower, upper=upper, n=0, mean=None, sd=None, bandwidth=None, density=None)
    sd = float(cosines.std(ddof=1)) if n > 1 else 0.0
    bandwidth = max(sd * n**-0.2, float(grid[1] - grid[0]) / 2)
    scale = n * bandwidth * math.sqrt(2 * math.pi)
    density = [float(np.exp(-0.5 * ((x - cosines) / bandwidth) ** 2).sum()) / scale for x in grid]
    return GroupDensity(
        lower=lower, upper=upper, n=n, mean=float(cosines.mean()), sd=sd, bandwidth=bandwidth, density=density
    )


LENGTH_EDGES = (0, 1, 2, 3, 4, 6, 10)
"""Where the bins of the difference in words begin; the fourth ends where ESimCSE splits (3 words)."""

OVERLAP_EDGES = (0.0, 0.2, 0.4, 0.6, 0.8)
"""Where the bins of the overlap begin; the last one holds 1."""

_ROUNDING = 1e-12


class Bin(Settings):
    """The pairs in one bin of a trait.

    Attributes:
        lower: the trait's lowest value.
        upper: where the next bin begins; None in the last.
        n: pairs.
        mean_cosine: None without pairs, as are the next two.
        mean_gold: in the data's own unit.
        mean_shift: mean of (rank by cosine - rank by gold) / number of all pairs, in (-1, 1): +0.1 means that the
            model places them a tenth of the list higher than people do.
    """

    lower: FiniteFloat
    upper: FiniteFloat | None
    n: int
    mean_cosine: FiniteFloat | None
    mean_gold: FiniteFloat | None
    mean_shift: FiniteFloat | None


class Trait(Settings):
    """How the cosines follow a trait of the pairs that is not their meaning.

    Attributes:
        partial: Spearman's correlation of cosine and trait with the gold score held fixed, in [-1, 1]; None where
            the trait or the cosines are constant, or gold and another are in full agreement.
        shift: Spearman's correlation of (rank by cosine - rank by gold) with the trait, in [-1, 1]; None where the
            trait or the shifts are constant.
        bins: in rising value of the trait.
    """

    partial: FiniteFloat | None
    shift: FiniteFloat | None
    bins: list[Bin]


class PairBias(Settings):
    """The biases of a model over n pairs.

    Attributes:
        n: pairs.
        length_difference: trait ``| |x| - |y| |`` in words; below 0 means that pairs of similar length are preferred.
        word_overlap: trait F1 of the two bags of words; above 0 means that common words are preferred.
    """

    n: int
    length_difference: Trait
    word_overlap: Trait


def pair_bias(cosines: Vectors, pairs: ScoredPairs) -> PairBias:
    r"""Measures how cosines follow the difference in length and shared words (ESimCSE, section 1; SimCSE, section 4).

    With ranks :math:`r(c), r(g), r(v)` of cosine, gold score and trait, ties sharing their mean rank, and
    :math:`\rho` their correlations,

    .. math:: \text{partial} = \frac{\rho_{cv} - \rho_{cg}\,\rho_{gv}}
                                    {\sqrt{(1 - \rho_{cg}^2)(1 - \rho_{gv}^2)}}, \qquad
              \text{shift} = \rho\big(r(c) - r(g),\, v\big)

    The partial one answers the question: of pairs that people find equally similar, does the model rank those of one
    length higher? The shift is also moved by the gold scores themselves: a model that orders nothing places similar
    pairs too low, so whatever goes along with similarity correlates with it. Length counts words between white space,
    as the length split of the STS evaluation; overlap is of the same words, lower-cased.

    Args:
        cosines: (n,), one for each pair.
        pairs: texts and gold scores.

    Raises:
        UserError: if neither text of a pair holds a word.

    Example:
        >>> first = ["a cat", "a dog", "the sun", "rain falls here"]
        >>> second = ["a cat sleeps", "it barks", "the moon", "it rains"]
        >>> pairs = ScoredPairs("pairs", np.array([4.0, 3.0, 1.0, 5.0]), first, second)
        >>> bias = pair_bias(np.array([0.9, 0.2, 0.7, 0.6]), pairs)
        >>> bias.n, round(bias.word_overlap.partial, 2)
        (4, 0.97)
    """
    values = np.asarray(cosines, dtype=np.float64)
    lengths = _of_pairs(pairs, lambda one, two: abs(len(one) - len(two)))
    overlaps = _of_pairs(pairs, bag_f1)
    return PairBias(
        n=len(pairs),
        length_difference=_trait(values, pairs.scores, lengths, LENGTH_EDGES),
        word_overlap=_trait(values, pairs.scores, overlaps, OVERLAP_EDGES),
    )


def partial_spearman(first: Floats, second: Floats, fixed: Floats) -> float | None:
    """Returns Spearman's correlation of two variables (n,) with a third held fixed; see ``pair_bias``.

    None where it is not defined.

    Example:
        >>> fixed = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
        >>> round(partial_spearman(np.array([2.0, 1.0, 3.0, 5.0, 4.0]), np.array([2.0, 1.0, 4.0, 3.0, 5.0]), fixed), 4)
        0.1667
    """
    if any((side == side[0]).all() for side in (first, second, fixed)):
        return None
    both, one, two = spearman(first, second), spearman(first, fixed), spearman(second, fixed)
    remaining = (1 - one * one) * (1 - two * two)
    if remaining <= _ROUNDING:
        return None
    return max(-1.0, min(1.0, (both - one * two) / math.sqrt(remaining)))


def _of_pairs(pairs: ScoredPairs, measure: Callable[[list[str], list[str]], float]) -> Floats:
    values = []
    for number, (one, two) in enumerate(zip(pairs.first, pairs.second, strict=True), start=1):
        words = plain_words(one), plain_words(two)
        if not any(words):
            raise UserError(f"{pairs.name}, pair {number}: neither text holds a word; drop the pair")
        values.append(measure(*words))
    return np.array(values, dtype=np.float64)


def _trait(cosines: Floats, gold: Floats, trait: Floats, edges: Sequence[float]) -> Trait:
    shifts = (mean_ranks(cosines) - mean_ranks(gold)) / len(gold)
    constant = (trait == trait[0]).all() or (shifts == shifts[0]).all()
    which = np.searchsorted(np.asarray(edges, dtype=np.float64), trait, side="right") - 1
    bins = []
    for number, lower in enumerate(edges):
        inside = which == number
        means = [float(side[inside].mean()) if inside.any() else None for side in (cosines, gold, shifts)]
        bins.append(
            Bin(
                lower=lower,
                upper=edges[number + 1] if number + 1 < len(edges) else None,
                n=int(inside.sum()),
                mean_cosine=means[0],
                mean_gold=means[1],
                mean_shift=means[2],
            )
        )
    return Trait(
        partial=partial_spearman(cosines, trait, gold),
        shift=None if constant else spearman(shifts, trait),
        bins=bins,
    )
