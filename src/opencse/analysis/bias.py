"""Whether a model prefers pairs of similar length or with common words, and the cosines by gold score."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest

import numpy as np
from pydantic import FiniteFloat

from opencse.arrays import Floats, Vectors
from opencse.errors import UserError
from opencse.evaluation import ScoredPairs, spearman
from opencse.settings import Settings


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
        density: at each point of the grid; None without pairs.
    """

    lower: FiniteFloat
    upper: FiniteFloat
    n: int
    density: list[FiniteFloat] | None


class Densities(Settings):
    """The groups in rising gold score, and the cosines (the grid) at which their densities are given."""

    grid: list[FiniteFloat]
    groups: list[GroupDensity]


def densities(cosines: Vectors, gold: Vectors, *, edges: Sequence[float] = EDGES) -> Densities:
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

    Example:
        >>> groups = densities(np.array([0.1, 0.3, 0.8]), np.array([1.5, 1.0, 5.0])).groups
        >>> [(group.lower, group.n) for group in groups if group.n]
        [(1.0, 2), (4.0, 1)]
    """
    values, scores = np.asarray(cosines, dtype=np.float64), np.asarray(gold, dtype=np.float64)
    bounds = np.asarray(edges, dtype=np.float64)
    grid = np.linspace(-1, 1, POINTS)
    # A score on the highest edge belongs to the last group.
    group = np.minimum(np.searchsorted(bounds, scores, side="right") - 1, len(bounds) - 2)
    groups = [
        GroupDensity(
            lower=float(bounds[number]),
            upper=float(bounds[number + 1]),
            n=int((group == number).sum()),
            density=_density(values[group == number], grid),
        )
        for number in range(len(bounds) - 1)
    ]
    return Densities(grid=grid.tolist(), groups=groups)


def _density(cosines: Floats, grid: Floats) -> list[float] | None:
    n = len(cosines)
    if not n:
        return None
    sd = float(cosines.std(ddof=1)) if n > 1 else 0.0
    bandwidth = max(sd * n**-0.2, float(grid[1] - grid[0]) / 2)
    scale = n * bandwidth * math.sqrt(2 * math.pi)
    return [float(np.exp(-0.5 * ((x - cosines) / bandwidth) ** 2).sum()) / scale for x in grid]


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
        mean_cosine: None without pairs.
    """

    lower: FiniteFloat
    upper: FiniteFloat | None
    n: int
    mean_cosine: FiniteFloat | None


class Trait(Settings):
    """How the cosines follow a trait of the pairs that is not their meaning.

    Attributes:
        partial: Spearman's correlation of cosine and trait with the gold score held fixed, in [-1, 1]; None where
            the trait or the cosines are constant, or gold and another are in full agreement.
        bins: in rising value of the trait.
    """

    partial: FiniteFloat | None
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
                                    {\sqrt{(1 - \rho_{cg}^2)(1 - \rho_{gv}^2)}}

    It answers the question: of pairs that people find equally similar, does the model rank pairs of one length higher?
    Length counts words between white space,
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
    which = np.searchsorted(np.asarray(edges, dtype=np.float64), trait, side="right") - 1
    bins = [
        Bin(
            lower=lower,
            upper=upper,
            n=int((which == number).sum()),
            mean_cosine=float(cosines[which == number].mean()) if (which == number).any() else None,
        )
        for number, (lower, upper) in enumerate(zip_longest(edges, edges[1:]))
    ]
    return Trait(partial=partial_spearman(cosines, trait, gold), bins=bins)
