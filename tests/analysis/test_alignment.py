"""Alignment, uniformity and the mean cosine against double loops, closed forms, and whatever the tiles are."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import iv

from fuzzing import examples
from opencse.analysis import tiles
from opencse.analysis.alignment import alignment, all_pairs, uniformity
from opencse.analysis.spectrum import moments
from opencse.errors import UserError

Floats = NDArray[np.floating]


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four rows a tile, so that a few vectors take several."""
    monkeypatch.setattr(tiles, "SIDE", 4)
    monkeypatch.setattr(tiles, "ELEMENTS", 20)


def mean_cosine(vectors: Floats) -> float:
    return moments(vectors).mean_cosine()


def sum_of_gram(vectors: Floats) -> float:
    return moments(vectors).sum_of_gram()


def unit(vector: list[float]) -> list[float]:
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector]


def squared_distance(u: list[float], v: list[float]) -> float:
    return sum((x - y) ** 2 for x, y in zip(unit(u), unit(v), strict=True))


def cosine(u: list[float], v: list[float]) -> float:
    return sum(x * y for x, y in zip(unit(u), unit(v), strict=True))


def some(n: int, seed: int = 0, dimension: int = 5) -> Floats:
    """Anisotropic vectors of different lengths."""
    rng = np.random.default_rng(seed)
    return np.asarray((rng.normal(size=(n, dimension)) + 0.7) * rng.uniform(0.1, 9, (n, 1)))


@pytest.mark.parametrize("n", [1, 3, 4, 5, 8, 11])
def test_alignment_is_the_mean_squared_distance(n: int) -> None:
    first, second = some(n), some(n, 1)
    expected = sum(squared_distance(u, v) for u, v in zip(first.tolist(), second.tolist(), strict=True)) / n
    assert alignment(first, second) == pytest.approx(expected, rel=1e-12)
    assert alignment(first, first) == 0
    assert alignment(first, -first) == pytest.approx(4)
    assert 0.1 < expected < 3.9


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 9, 13])
@pytest.mark.parametrize("t", [0.5, 2.0])
def test_uniformity_is_over_all_pairs_of_distinct_rows(n: int, t: float) -> None:
    vectors = some(n)
    rows = vectors.tolist()
    terms = [math.exp(-t * squared_distance(rows[i], rows[j])) for i in range(n) for j in range(i + 1, n)]
    assert uniformity(vectors, t) == pytest.approx(math.log(sum(terms) / len(terms)), rel=1e-11)
    least = min(cosine(rows[i], rows[j]) for i in range(n) for j in range(i + 1, n))
    assert all_pairs(vectors, t).least == pytest.approx(least, abs=1e-13)


@pytest.mark.parametrize("n", [2, 4, 5, 9])
def test_mean_cosine_and_sum_of_gram_are_those_of_all_pairs(n: int) -> None:
    vectors = some(n)
    rows = vectors.tolist()
    all_of_them = [[cosine(u, v) for v in rows] for u in rows]
    assert sum_of_gram(vectors) == pytest.approx(sum(map(sum, all_of_them)), rel=1e-12)
    distinct = [all_of_them[i][j] for i in range(n) for j in range(n) if i != j]
    assert mean_cosine(vectors) == pytest.approx(sum(distinct) / len(distinct), rel=1e-11)


@pytest.mark.parametrize("dimension", [3, 6])
def test_points_spread_evenly_have_the_integral(dimension: int) -> None:
    # E exp(2 t cos) of two directions on the sphere in d dimensions: Gamma(d/2) (2/k)^(d/2-1) I_{d/2-1}(k), k = 2 t.
    half, k = dimension / 2, 4.0
    expected = math.log(math.gamma(half) * (2 / k) ** (half - 1) * float(iv(half - 1, k))) - k
    if dimension == 3:
        assert expected == pytest.approx(math.log(math.sinh(k) / k) - k)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "SIDE", 1024)
        found = uniformity(np.random.default_rng(3).normal(size=(2500, dimension)))
    assert found == pytest.approx(expected, abs=0.01)


def test_one_point_and_a_frame() -> None:
    point = np.repeat(np.array([[0.3, -1.2, 0.5]], dtype=np.float32), 9, axis=0)
    assert uniformity(point) == pytest.approx(0, abs=1e-14)
    assert mean_cosine(point) == pytest.approx(1, abs=1e-14)
    assert sum_of_gram(point) == pytest.approx(81)
    frame = np.eye(6) * np.arange(1, 7)[:, None]
    assert uniformity(frame) == pytest.approx(-4)
    assert mean_cosine(frame) == pytest.approx(0, abs=1e-15)
    assert sum_of_gram(frame) == pytest.approx(6)
    assert uniformity(frame, 1000.0) == pytest.approx(-2000), "exp(-2000) is 0 in float64"
    antipodes = np.array([[1.0, 0], [-1, 0]])
    assert uniformity(antipodes, 3.0) == pytest.approx(-12)
    assert mean_cosine(antipodes) == pytest.approx(-1)


@examples(20)
@given(st.integers(2, 9), st.integers(0, 99), st.floats(1e-3, 1e3))
def test_order_and_length_say_nothing(n: int, seed: int, scale: float) -> None:
    vectors = some(n, seed)
    order = np.random.default_rng(seed).permutation(n)
    for measure in (uniformity, mean_cosine, sum_of_gram):
        assert measure(vectors[order] * scale) == pytest.approx(measure(vectors), rel=1e-9, abs=1e-12)
    other = some(n, seed + 1)
    assert alignment(vectors[order] * scale, other[order]) == pytest.approx(alignment(vectors, other), rel=1e-9)


def test_half_precision_and_huge_lengths_do_not_overflow() -> None:
    vectors = some(6)
    exact = uniformity(vectors)
    assert uniformity(vectors * 1e200) == pytest.approx(exact, rel=1e-12)
    assert uniformity(vectors * 1e-200) == pytest.approx(exact, rel=1e-12)
    half = (vectors * 60_000 / np.abs(vectors).max()).astype(np.float16)
    assert uniformity(half) == pytest.approx(exact, rel=1e-2)


def test_wrong_vectors_are_refused_by_row() -> None:
    vectors = some(9)
    vectors[6] = 0
    with pytest.raises(UserError, match=r"^vector 6 \(from 0\) is all zeros and has no direction; leave its text out$"):
        mean_cosine(vectors)
    for bad in (np.nan, np.inf):
        vectors[6, 2] = bad
        with pytest.raises(UserError, match=r"vector 6 .* NaN or infinite"):
            uniformity(vectors)
    with pytest.raises(UserError, match=r"1 vector.* at least 2"):
        uniformity(some(1))
    with pytest.raises(UserError, match="0 vector"):
        alignment(some(0), some(0))
    for t in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(UserError, match="t of uniformity"):
            uniformity(some(3), t)
    with pytest.raises(ValueError, match="one shape"):
        alignment(some(3), some(4))
    wrong: list[NDArray[Any]] = [np.ones(3), np.ones((3, 2), dtype=np.int64), np.ones((3, 0))]
    for array in wrong:
        with pytest.raises(ValueError, match=r"\(n, d\) vectors are expected"):
            uniformity(array)
