"""Unit vectors and cosines, tile by tile, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from opencse.analysis import tiles as module
from opencse.analysis.tiles import pair_cosines, require_vectors, tiles, unit
from opencse.errors import UserError


def test_every_pair_is_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SIDE", 4)
    vectors = np.random.default_rng(0).normal(size=(11, 3))
    lengths = np.linalg.norm(vectors, axis=1)
    naive = [vectors[i] @ vectors[j] / lengths[i] / lengths[j] for i in range(11) for j in range(i + 1, 11)]
    cosines = np.concatenate([block.ravel() for block in pair_cosines(vectors)])
    np.testing.assert_allclose(np.sort(cosines), np.sort(naive), atol=1e-12)


def test_tiles_cover_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ELEMENTS", 7)
    vectors = np.ones((10, 3))
    assert [len(vectors[rows]) for rows in tiles(vectors)] == [2] * 5


def test_units_neither_overflow_nor_hide_a_vector_without_direction() -> None:
    vectors = np.array([[3e300, 4e300], [0.0, 0.0], [np.nan, 1.0]])
    np.testing.assert_allclose(unit(vectors, slice(0, 1)), [[0.6, 0.8]])
    with pytest.raises(UserError, match=r"vector 1 \(from 0\) is all zeros"):
        unit(vectors, slice(0, 2))
    with pytest.raises(UserError, match=r"vector 2 \(from 0\) holds NaN"):
        unit(vectors, slice(2, 3))


def test_shapes_and_counts() -> None:
    with pytest.raises(ValueError, match="floating-point"):
        require_vectors(np.ones((2, 2), dtype=int))
    with pytest.raises(UserError, match="at least 2 are needed"):
        require_vectors(np.ones((1, 2)), 2)
