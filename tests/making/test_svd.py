"""The random-projection SVD, against the exact one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from opencse.making.svd import truncated_svd


@pytest.fixture(scope="module")
def matrix() -> csr_array:
    """(120, 120), a third filled, not symmetric, with a slowly falling spectrum."""
    generator = np.random.default_rng(1)
    left, right = (np.linalg.qr(generator.standard_normal((120, 120)))[0] for _ in range(2))
    dense = (left * 0.9 ** np.arange(120)) @ right.T
    return csr_array((dense * (generator.random((120, 120)) < 0.33)).astype(np.float32))


@pytest.mark.parametrize("rank", [1, 10, 120])
def test_vectors_and_values_equal_numpys(matrix: csr_array, rank: int) -> None:
    vectors, values = truncated_svd(matrix, rank, np.random.default_rng(0))
    exact, strengths, other = np.linalg.svd(matrix.toarray().astype(np.float64))
    assert vectors.shape == (120, rank)
    np.testing.assert_allclose(values, strengths[:rank], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(rank), atol=1e-4)
    overlap = np.linalg.svd(vectors.T @ exact[:, :rank])[1]
    assert overlap.min() > 0.999
    wrong_side = np.linalg.svd(vectors.T @ other.T[:, :rank])[1]
    assert rank == 120 or wrong_side.min() < 0.9, "left vectors, not right ones"


def test_power_iterations_are_what_makes_it_accurate(matrix: csr_array) -> None:
    exact = np.linalg.svd(matrix.toarray())[0][:, :10]
    rough, fine = (
        np.linalg.svd(truncated_svd(matrix, 10, np.random.default_rng(0), power=power)[0].T @ exact)[1].min()
        for power in (0, 3)
    )
    assert rough < 0.9 < fine


def test_the_same_generator_gives_the_same_vectors(matrix: csr_array) -> None:
    first, again, other = (truncated_svd(matrix, 5, np.random.default_rng(seed))[0] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_progress_goes_to_the_end(matrix: csr_array) -> None:
    told: list[tuple[int, int]] = []
    truncated_svd(matrix, 5, np.random.default_rng(0), progress=lambda *step: told.append(step))
    assert told == [(n, 6) for n in range(1, 7)]
