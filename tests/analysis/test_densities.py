"""Densities of cosines by gold group against scipy's and a double loop."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import gaussian_kde

from opencse.analysis.densities import Densities, densities
from opencse.errors import UserError


def some(n: int = 300) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rng = np.random.default_rng(0)
    gold = np.round(rng.uniform(0, 5, n) * 5) / 5
    return np.tanh(gold / 5 + 0.3 * rng.normal(size=n)), gold


def test_density_is_scipys() -> None:
    cosines, gold = some()
    found = densities(cosines, gold)
    assert found.grid == pytest.approx([k / 100 - 1 for k in range(201)])
    assert [(g.lower, g.upper) for g in found.groups] == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    for number, group in enumerate(found.groups):
        inside = cosines[(gold >= number) & ((gold < number + 1) | (number == 4))]
        assert group.n == len(inside) > 30
        assert group.density == pytest.approx(gaussian_kde(inside)(np.array(found.grid)), rel=1e-9, abs=1e-12)
        assert (group.mean, group.sd) == pytest.approx((inside.mean(), inside.std(ddof=1)))
        assert group.density is not None
        assert 0.9 < sum(group.density) * 0.01 < 1.01
    means = [group.mean or 0 for group in found.groups]
    assert means == sorted(means)


def test_density_is_the_formula() -> None:
    found = densities(np.array([0.1, 0.3, 0.35]), np.array([0.0, 0.5, 0.9]), edges=(0, 1), points=5)
    (group,) = found.groups
    spread = math.sqrt(sum((c - 0.25) ** 2 for c in (0.1, 0.3, 0.35)) / 2)
    h = max(spread * 3**-0.2, 0.25)
    assert group.bandwidth == h == 0.25, "half of the coarse grid's step"
    for x, density in zip(found.grid, group.density or [], strict=True):
        kernels = [math.exp(-(((x - c) / h) ** 2) / 2) / math.sqrt(2 * math.pi) for c in (0.1, 0.3, 0.35)]
        assert density == pytest.approx(sum(kernels) / (3 * h))


def test_edges_belong_to_the_group_above_and_the_last_to_the_last() -> None:
    gold = np.array([0.0, 1, 1, 3, 4, 5, 5])
    groups = densities(np.linspace(-1, 1, 7), gold).groups
    assert [group.n for group in groups] == [1, 2, 0, 1, 3]
    empty, single = groups[2], groups[0]
    assert (empty.mean, empty.sd, empty.bandwidth, empty.density) == (None, None, None, None)
    assert (single.mean, single.sd, single.bandwidth) == pytest.approx((-1, 0, 0.005))
    assert single.density is not None
    assert max(single.density) == single.density[0] == pytest.approx(1 / (0.005 * math.sqrt(2 * math.pi)))


def test_equal_cosines_have_a_density() -> None:
    found = densities(np.full(50, 0.505), np.full(50, 4.5))
    density = np.array(found.groups[4].density)
    assert np.isfinite(density).all()
    assert density.sum() * 0.01 == pytest.approx(1, abs=0.05), "also between two points of the grid"
    assert Densities.model_validate_json(found.model_dump_json()) == found


def test_wrong_input_is_refused() -> None:
    one = np.array([0.5])
    with pytest.raises(
        UserError, match=r"^pair 2: its gold score 5.5 is outside the groups \(0 to 5\); give the edges"
    ):
        densities(np.array([0.1, 0.2]), np.array([1.0, 5.5]))
    with pytest.raises(UserError, match="pair 1: its gold score -1"):
        densities(one, np.array([-1.0]))
    with pytest.raises(UserError, match="no pairs"):
        densities(one[:0], one[:0])
    for edges in ((0, 1, 1), (2.0,), (1, 0)):
        with pytest.raises(UserError, match="must rise"):
            densities(one, one, edges=edges)
    for cosines, gold in ((np.array([np.nan]), one), (np.array([1.5]), one), (one, np.array([np.inf]))):
        with pytest.raises(ValueError, match="finite scores"):
            densities(cosines, gold)
    with pytest.raises(ValueError, match="one length"):
        densities(np.ones(2), one)
    with pytest.raises(ValueError, match="at least 2 points"):
        densities(one, one, points=1)
