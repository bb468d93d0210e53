"""Densities of the cosines of graded pairs, one for each group of gold scores."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from pydantic import FiniteFloat

from opencse.arrays import Floats, Vectors
from opencse.errors import UserError
from opencse.settings import Settings

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
        gold: (n,) gold scores.
        edges: of the groups, rising; 0, 1, ..., 5 for STS.
        points: of the grid, evenly from -1 to 1.

    Raises:
        UserError: for no pairs, a gold score outside the edges, or edges that do not rise.
        ValueError: for arrays that are not (n,) of one length, not finite, cosines outside [-1, 1], or fewer than 2
            points.

    Example:
        >>> groups = densities(np.array([0.1, 0.3, 0.8]), np.array([1.5, 1.0, 5.0])).groups
        >>> [(group.n, group.mean) for group in groups if group.n]
        [(2, 0.2), (1, 0.8)]
    """
    values, scores = np.asarray(cosines, dtype=np.float64), np.asarray(gold, dtype=np.float64)
    bounds = np.asarray(edges, dtype=np.float64)
    _require(values, scores, bounds, points)
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


def _require(cosines: Floats, gold: Floats, edges: Floats, points: int) -> None:
    if cosines.ndim != 1 or cosines.shape != gold.shape:
        raise ValueError(f"two (n,) arrays of one length are expected, got {cosines.shape} and {gold.shape}")
    if not (np.isfinite(cosines).all() and np.isfinite(gold).all()) or (np.abs(cosines) > 1).any():
        raise ValueError("finite scores and cosines in [-1, 1] are expected")
    if points < 2:
        raise ValueError(f"a grid has at least 2 points, not {points}")
    if len(edges) < 2 or not (np.diff(edges) > 0).all():
        raise UserError(f"the edges of the groups must rise, these do not: {', '.join(f'{e:g}' for e in edges)}")
    if not len(gold):
        raise UserError("no pairs to take densities of; give at least one")
    outside = (gold < edges[0]) | (gold > edges[-1])
    if outside.any():
        raise UserError(
            f"pair {int(outside.argmax()) + 1}: its gold score {gold[outside.argmax()]:g} is outside the groups "
            f"({edges[0]:g} to {edges[-1]:g}); give the edges of your scale"
        )
