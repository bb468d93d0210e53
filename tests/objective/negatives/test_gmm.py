"""The Gaussian mixture: expectation and maximisation in loops, its samples, and components that are lost."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from opencse.objective.negatives.gmm import Gmm, Mixture, _revive

D = 8


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def cloud(n: int) -> Tensor:
    return 5.0 + torch.linspace(1, 2, D) * torch.randn(n, D, generator=generator(1000))


def mixture(components: int, iterations: int = 3, d: int = D) -> Mixture:
    return Mixture(Gmm.Settings(components=components, iterations=iterations), torch.zeros(0, d), seed=0)


def em(points: list[list[float]], state: tuple[Any, ...], iterations: int) -> tuple[Any, ...]:
    """Expectation and maximisation, one number after the other."""
    weights, means, variances = state
    d = range(len(points[0]))
    for _ in range(iterations):
        shares = []
        for x in points:
            parts = [
                w * math.prod(math.exp(-((x[k] - m[k]) ** 2) / (2 * v[k])) / math.sqrt(2 * math.pi * v[k]) for k in d)
                for w, m, v in zip(weights, means, variances, strict=True)
            ]
            shares.append([part / sum(parts) for part in parts])
        totals = [sum(share[c] for share in shares) for c in range(len(weights))]
        weights = [total / len(points) for total in totals]
        means = [[sum(s[c] * x[k] for s, x in zip(shares, points, strict=True)) / totals[c] for k in d] for c in (0, 1)]
        variances = [
            [sum(s[c] * (x[k] - means[c][k]) ** 2 for s, x in zip(shares, points, strict=True)) / totals[c] for k in d]
            for c in (0, 1)
        ]
    return weights, means, variances


def test_the_mixture_against_loops_from_where_it_ended() -> None:
    """Two fits on different points: the second starts at the end of the first, in the points' own scale."""
    model = mixture(2, iterations=2, d=3)
    random = torch.randn(2, 40, 3, generator=generator(), dtype=torch.float64)
    first, second = random * torch.tensor([1.0, 2.0, 5.0]) + torch.tensor([3.0, 0.0, 1.0])
    second = second * 1.5 - 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a step need not converge
        model.fit(first, generator(1))
    state = (model.weights.tolist(), model.means.tolist(), model.variances.tolist())
    model.fit(second, generator(2))
    weights, means, variances = em(second.tolist(), state, 2)
    assert model.weights.tolist() == pytest.approx(weights, rel=1e-4)
    torch.testing.assert_close(model.means, torch.tensor(means), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(model.variances, torch.tensor(variances), rtol=1e-3, atol=1e-4)
    assert int(model.fits) == 2
    assert max(abs(a - b) for a, b in zip(state[0], weights, strict=True)) > 1e-3


def test_one_component_has_the_moments_of_the_points() -> None:
    model = mixture(1)
    points = cloud(30)
    model.fit(points, generator())
    torch.testing.assert_close(model.means[0], points.mean(dim=0))
    torch.testing.assert_close(model.variances[0], points.var(dim=0, correction=0), rtol=1e-4, atol=1e-6)


def test_equal_outliers_do_not_break_the_fit() -> None:
    """In float32 the difference of squares behind their variance would be rounding alone, below 0 at times."""
    model = mixture(2, iterations=10)
    points = torch.cat([torch.randn(200, D, generator=generator()), torch.full((4, D), 70.3)])
    for step in range(3):
        model.fit(points, generator(step))
    outliers = int(model.means[:, 0].argmax())
    torch.testing.assert_close(model.means[outliers], torch.full((D,), 70.3))
    assert float(model.weights[outliers]) == pytest.approx(4 / 204)
    expected = 1e-6 * points.var(dim=0)
    torch.testing.assert_close(model.variances[outliers], expected, rtol=1e-3, atol=0.0)


def test_samples_have_the_mixtures_moments() -> None:
    model = mixture(3, d=2)
    model.weights.copy_(torch.tensor([0.5, 0.3, 0.2]))
    model.means.copy_(torch.tensor([[0.0, 0.0], [100.0, 0.0], [0.0, 100.0]]))
    model.variances.copy_(torch.tensor([[1.0, 4.0], [9.0, 0.25], [0.0, 16.0]]))
    samples = model.sample(60_000, generator())
    groups = torch.cdist(samples, model.means).argmin(dim=1)
    for c in range(3):
        own = samples[groups == c]
        assert len(own) / 60_000 == pytest.approx(float(model.weights[c]), abs=0.01)
        torch.testing.assert_close(own.mean(dim=0), model.means[c], rtol=0.0, atol=0.15)
        torch.testing.assert_close(own.var(dim=0), model.variances[c], rtol=0.05, atol=1e-5)


def test_the_mixture_waits_for_as_many_points_as_components() -> None:
    model = mixture(5)
    model.fit(cloud(4), generator())
    assert not model.fitted
    assert not model.means.any()
    model.fit(cloud(5), generator())
    assert model.fitted
    assert float(model.weights.sum()) == pytest.approx(1.0)
    assert torch.isfinite(model.means).all()


def test_no_component_stays_lost() -> None:
    """In many dimensions small components are lost as the points of old steps go; the heaviest ones are split."""
    d, components = 64, 8
    model = mixture(components, iterations=5, d=d)
    basis = torch.randn(d, d, generator=generator(7)) * torch.arange(1, d + 1) ** -0.5
    store = torch.zeros(0, d)
    smallest = []
    for step in range(40):
        new = torch.randn(16, d, generator=generator(step)) @ basis
        store = torch.cat([store, new])[-128:]
        model.fit(store, generator(step))
        smallest.append(float(model.weights.min()) * len(store))
    assert min(smallest[20:]) > 1.5
    assert float(model.weights.sum()) == pytest.approx(1.0, abs=1e-6)


def test_a_lost_component_takes_half_of_the_heaviest() -> None:
    weights, means = np.array([0.02, 0.6, 0.38]), np.array([[9.0, 9.0], [1.0, 2.0], [5.0, 5.0]])
    variances, drawn = np.array([[7.0, 7.0], [4.0, 9.0], [1.0, 1.0]]), np.array([[1.0, -2.0], [8.0, 8.0], [8.0, 8.0]])
    _revive(weights, means, variances, drawn, 50)
    np.testing.assert_allclose(weights, [0.3, 0.3, 0.38])
    np.testing.assert_allclose(means, [[1.2, 1.4], [0.8, 2.6], [5.0, 5.0]])
    np.testing.assert_allclose(variances, [[4.0, 9.0], [4.0, 9.0], [1.0, 1.0]])
    few = np.array([1 / 6, 2 / 6, 3 / 6])
    _revive(few, means, variances, drawn, 6)
    np.testing.assert_allclose(few, [1 / 6, 2 / 6, 3 / 6])  # three points make no two halves of two
    np.testing.assert_allclose(means[0], [1.2, 1.4])
