"""Geometry of vectors: alignment, uniformity and the spectrum against loops, and their record."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from opencse.analysis import geometry as tiles
from opencse.analysis.geometry import (
    Geometry,
    alignment,
    all_pairs,
    effective_rank,
    geometry,
    moments,
    positive_sides,
    uniformity,
)
from opencse.evaluation import Encode, ScoredPairs, distinct, embed

Vectors = NDArray[np.float32]


def bag(texts: Sequence[str]) -> Vectors:
    vectors = np.zeros((len(texts), 32), dtype=np.float32)
    for row, text in enumerate(texts):
        for word in text.split():
            vectors[row, hashlib.md5(word.encode()).digest()[0] % 32] += 1
    return vectors


def of_pairs(encode: Encode, pairs: ScoredPairs) -> Geometry:
    """Of the distinct sentences, with the pairs of high gold score as positives."""
    embedded = embed(encode, distinct([pairs.first, pairs.second]))
    return geometry(embedded.vectors, positive_sides(embedded, pairs))


def test_graded_pairs_by_the_papers_protocol() -> None:
    first, second = ["a b", "a c", "d", "a b"], ["a b e", "d", "f g", "c"]
    pairs = ScoredPairs("four", np.array([4.2, 4.0, 5.0, 0.0]), first, second)
    asked: list[Sequence[str]] = []

    def encode(texts: Sequence[str]) -> Vectors:
        asked.append(texts)
        return bag(texts)

    found = of_pairs(encode, pairs)
    assert asked == [["a b", "a c", "d", "a b e", "f g", "c"]]
    assert found == geometry(bag(asked[0]), (bag(["a b", "d"]), bag(["a b e", "f g"])))
    assert found.positives is not None
    assert found.positives.n == 2, "4.0 is not above 4"
    none = ScoredPairs("none", np.array([-1.0, -2.0, -3.0, -4.0]), first, second)
    assert of_pairs(bag, none).positives is None


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


def uneven(n: int, seed: int = 0, dimension: int = 5) -> Floats:
    """Anisotropic vectors of different lengths."""
    rng = np.random.default_rng(seed)
    return np.asarray((rng.normal(size=(n, dimension)) + 0.7) * rng.uniform(0.1, 9, (n, 1)))


@pytest.mark.parametrize(("n", "t"), [(2, 0.5), (4, 2.0), (13, 0.5)])  # of one tile, exactly one, and of several
def test_alignment_and_uniformity_are_those_of_all_pairs(n: int, t: float) -> None:
    vectors, others = uneven(n), uneven(n, 1)
    rows = vectors.tolist()
    near = sum(squared_distance(u, v) for u, v in zip(rows, others.tolist(), strict=True)) / n
    assert alignment(vectors, others) == pytest.approx(near, rel=1e-12)
    assert alignment(vectors, -vectors) == pytest.approx(4)
    terms = [math.exp(-t * squared_distance(rows[i], rows[j])) for i in range(n) for j in range(i + 1, n)]
    assert uniformity(vectors, t) == pytest.approx(math.log(sum(terms) / len(terms)), rel=1e-11)
    least = min(cosine(rows[i], rows[j]) for i in range(n) for j in range(i + 1, n))
    assert all_pairs(vectors, t)[1] == pytest.approx(least, abs=1e-13)


@pytest.mark.parametrize("n", [2, 9])
def test_mean_cosine_and_sum_of_gram_are_those_of_all_pairs(n: int) -> None:
    vectors = uneven(n)
    rows = vectors.tolist()
    all_of_them = [[cosine(u, v) for v in rows] for u in rows]
    assert sum_of_gram(vectors) == pytest.approx(sum(map(sum, all_of_them)), rel=1e-12)
    distinct = [all_of_them[i][j] for i in range(n) for j in range(n) if i != j]
    assert mean_cosine(vectors) == pytest.approx(sum(distinct) / len(distinct), rel=1e-11)


Doubles = NDArray[np.float64]


@pytest.fixture(autouse=True)
def smaller_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "ELEMENTS", 30)


def singular_values(vectors: NDArray[np.floating]) -> Doubles:
    return moments(vectors).singular_values()


def variance_shares(vectors: NDArray[np.floating], first: tuple[int, ...]) -> dict[int, float] | None:
    return moments(vectors).variance_shares(first)


def units(vectors: Doubles) -> Doubles:
    return np.array([[x / math.sqrt(sum(y * y for y in row)) for x in row] for row in vectors.tolist()])


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


def test_shares_of_variance_are_about_the_mean() -> None:
    vectors = np.random.default_rng(0).normal(size=(60, 5)) * np.arange(1, 6) + 20
    rows = units(vectors)
    values = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False) ** 2
    found = variance_shares(vectors, (1, 2, 5, 6, 0))
    assert found == pytest.approx({k: values[:k].sum() / values.sum() for k in (1, 2, 5)}, rel=1e-8)
    assert singular_values(vectors)[0] ** 2 / 60 > 0.9, "the mean itself would be nearly all"
    assert found is not None
    assert found[1] < 0.8
