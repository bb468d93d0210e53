"""Projections to two dimensions."""

from __future__ import annotations

import numpy as np
import pytest

from opencse.serving.served_index import project


def test_pca_is_the_leading_two_directions() -> None:
    vectors = np.random.default_rng(1).normal(size=(40, 5))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    centred = unit - unit.mean(axis=0)
    values, directions = np.linalg.eigh(centred.T @ centred)
    leading = centred @ directions[:, np.argsort(-values)[:2]]
    points = project(vectors)
    for column in (0, 1):  # up to sign, shift and scale
        assert abs(np.corrcoef(points[:, column], leading[:, column])[0, 1]) == pytest.approx(1)
