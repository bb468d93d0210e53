"""The fitted weight: near the best one, and near the default for few or unusual queries."""

from __future__ import annotations

import numpy as np
import pytest

from opencse.arrays import Floats
from opencse.documents.hybrid import SHARES, fit_weight


def curve(best: float, count: int = 400, *, height: float = 30, noise: float = 5, seed: int = 0) -> Floats:
    """Scores that are highest at ``best`` on average."""
    random = np.random.default_rng(seed)
    each = random.normal(50, 20, size=(count, 1)) + random.normal(0, noise, size=(count, len(SHARES)))
    return np.asarray(each - height * (SHARES - best) ** 2)


def fitted(values: Floats, default: float = 0.5) -> float:
    return fit_weight(values, np.arange(len(values)), "test", default).weight.value


@pytest.mark.parametrize("best", [0.3, 0.5, 0.8])
def test_many_queries_move_it_to_their_best_weight(best: float) -> None:
    assert fitted(curve(best, 1000)) == pytest.approx(best, abs=0.06)


def test_few_queries_move_it_less_from_the_weight_without_them() -> None:
    weights = [fitted(curve(0.7, count, noise=0)) for count in (5, 50, 500)]
    assert weights == sorted(weights)
    assert 0.5 < weights[0] < 0.53
    assert weights[-1] > 0.67
    assert 0.78 < fitted(curve(0.7, 5, noise=0), 0.8) < 0.8


@pytest.mark.parametrize(("best", "end"), [(0.0, 0.0), (1.0, 1.0)])
def test_an_end_that_is_significantly_better_is_taken(best: float, end: float) -> None:
    values = curve(best, 60, noise=0)
    values[:, -1 if best else 0] += 30
    assert fitted(values) == end
