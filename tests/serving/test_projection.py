"""Projections to two dimensions."""

from __future__ import annotations

import numpy as np
import pytest

from opencse.serving.projection import Method, project


@pytest.mark.parametrize("method", ["pca", "tsne"])
@pytest.mark.parametrize("rows", [0, 1, 2, 4, 30])
def test_points_lie_in_the_square(method: Method, rows: int) -> None:
    vectors = np.random.default_rng(0).normal(size=(rows, 6))
    points = project(vectors, method)
    assert points.shape == (rows, 2)
    assert np.abs(points).max(initial=0) <= 1 + 1e-9
    assert np.array_equal(points, project(vectors, method))


def test_pca_is_the_leading_two_directions() -> None:
    vectors = np.random.default_rng(1).normal(size=(40, 5))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    centred = unit - unit.mean(axis=0)
    values, directions = np.linalg.eigh(centred.T @ centred)
    leading = centred @ directions[:, np.argsort(-values)[:2]]
    points = project(vectors)
    for column in (0, 1):  # up to sign, shift and scale
        assert abs(np.corrcoef(points[:, column], leading[:, column])[0, 1]) == pytest.approx(1)
