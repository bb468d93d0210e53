"""Singular values, effective rank and shares of variance against SVD; the rank against the objective's own."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fuzzing import examples
from opencse.analysis import tiles
from opencse.analysis.spectrum import correlation_rank, effective_rank, moments
from opencse.errors import UserError
from opencse.objective.decorrelation import rank_of_products, unit_columns

Floats = NDArray[np.float64]


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "ELEMENTS", 30)


def some(n: int, dimension: int, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    return np.asarray((rng.normal(size=(n, dimension)) * np.arange(1, dimension + 1) + 1) * rng.uniform(0.1, 9, (n, 1)))


def singular_values(vectors: NDArray[np.floating]) -> Floats:
    return moments(vectors).singular_values()


def variance_shares(vectors: NDArray[np.floating], first: tuple[int, ...]) -> dict[int, float] | None:
    return moments(vectors).variance_shares(first)


def units(vectors: Floats) -> Floats:
    return np.array([[x / math.sqrt(sum(y * y for y in row)) for x in row] for row in vectors.tolist()])


@pytest.mark.parametrize(("n", "dimension"), [(40, 6), (6, 6), (4, 9), (1, 3)])
def test_singular_values_are_those_of_the_unit_matrix(n: int, dimension: int) -> None:
    vectors = some(n, dimension)
    expected = np.linalg.svd(units(vectors), compute_uv=False)
    found = singular_values(vectors)
    assert found == pytest.approx(expected, rel=1e-7)
    assert found.shape == (min(n, dimension),)
    assert (found**2).sum() == pytest.approx(n), "the trace of W W^T"
    assert found[0] ** 2 == pytest.approx(np.linalg.eigvalsh(units(vectors) @ units(vectors).T)[-1])


def test_sum_of_gram_bounds_the_top_eigenvalue_where_no_cosine_is_negative() -> None:
    vectors = np.abs(some(30, 5))
    top, total = singular_values(vectors)[0] ** 2, moments(vectors).sum_of_gram()
    assert total / 30 <= top <= total
    signed = np.array([[1.0, 0.1], [-1.0, 0.1]])
    assert moments(signed).sum_of_gram() < singular_values(signed)[0] ** 2, "the premise is needed"


def test_effective_rank_is_the_exponential_of_the_entropy() -> None:
    values = [3.0, 2.0, 0.5, 0.0]
    shares = [value / 5.5 for value in values if value]
    expected = math.exp(-sum(p * math.log(p) for p in shares))
    assert effective_rank(np.array(values)) == pytest.approx(expected)
    assert effective_rank(np.array(values) * 1e300) == pytest.approx(expected)
    squares = [p * p / sum(q * q for q in shares) for p in shares]
    assert expected > math.exp(-sum(p * math.log(p) for p in squares)) + 0.3, "not of the squares"
    assert effective_rank(np.array([7.0])) == 1
    assert effective_rank(np.array([1.0, 1, 1, 0])) == pytest.approx(3)


def test_one_point_and_a_frame() -> None:
    for kind in (np.float32, np.float64):
        point = np.repeat(np.random.default_rng(0).normal(size=(1, 12)).astype(kind), 50, axis=0)
        found = singular_values(point)
        assert found[0] == pytest.approx(math.sqrt(50))
        assert (found[1:] == 0).all(), "rounding is not a direction"
        assert effective_rank(found) == 1
        assert variance_shares(point, (1, 2)) is None
    frame = np.concatenate([np.eye(7), -2 * np.eye(7)])
    assert singular_values(frame) == pytest.approx(np.full(7, math.sqrt(2)))
    assert effective_rank(singular_values(frame)) == pytest.approx(7)
    assert variance_shares(frame, (1, 3, 7)) == pytest.approx({1: 1 / 7, 3: 3 / 7, 7: 1})


def test_shares_of_variance_are_about_the_mean() -> None:
    vectors = np.random.default_rng(0).normal(size=(60, 5)) * np.arange(1, 6) + 20
    rows = units(vectors)
    values = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False) ** 2
    found = variance_shares(vectors, (1, 2, 5, 6, 0))
    assert found == pytest.approx({k: values[:k].sum() / values.sum() for k in (1, 2, 5)}, rel=1e-8)
    assert singular_values(vectors)[0] ** 2 / 60 > 0.9, "the mean itself would be nearly all"
    assert found is not None
    assert found[1] < 0.8


@pytest.mark.parametrize(("n", "dimension"), [(6, 20), (20, 20), (21, 20), (50, 8), (1, 4), (2, 4)])
def test_rank_is_the_one_that_barlow_twins_logs(n: int, dimension: int) -> None:
    rng = np.random.default_rng(1)
    first = rng.normal(size=(n, dimension))
    second = first + 0.1 * rng.normal(size=(n, dimension))
    first[:, 2] = 0.3  # a constant dimension
    one, two = (unit_columns(torch.from_numpy(side)) for side in (first, second))
    expected = int(rank_of_products(one, two))
    assert correlation_rank(first, second) == expected
    assert expected == min(n, dimension)


def test_rank_of_few_directions() -> None:
    rng = np.random.default_rng(2)
    for n, dimension in ((9, 12), (40, 12)):
        low = rng.normal(size=(n, 3)) @ rng.normal(size=(3, dimension))
        assert correlation_rank(low, low) == 3
        assert correlation_rank(low, rng.normal(size=(n, dimension))) == 3
        assert correlation_rank(low.astype(np.float32) * 0, low.astype(np.float32)) == 0
    with pytest.raises(ValueError, match="one shape"):
        correlation_rank(np.ones((2, 3)), np.ones((3, 3)))
    with pytest.raises(ValueError, match="NaN or infinite"):
        correlation_rank(np.array([[1.0, np.nan]]), np.ones((1, 2)))


@examples(20)
@given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 99))
def test_a_rotation_changes_nothing(n: int, dimension: int, seed: int) -> None:
    vectors = some(n, dimension, seed)
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(dimension, dimension))).Q
    assert singular_values(vectors @ turn) == pytest.approx(singular_values(vectors), abs=1e-6)
    rank = effective_rank(singular_values(vectors))
    assert 1 - 1e-9 <= rank <= min(n, dimension) + 1e-9


def test_no_vectors_are_refused() -> None:
    with pytest.raises(UserError, match="0 vector"):
        moments(np.zeros((0, 3)))
