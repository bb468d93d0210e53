"""Geometry of vectors: alignment, uniformity, the mean cosine and the spectrum against loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

from opencse.analysis import geometry as tiles
from opencse.analysis.geometry import alignment, effective_rank, geometry, positive_sides, uniformity
from opencse.arrays import Floats
from opencse.evaluation import ScoredPairs, distinct, embed
from vectors_of_texts import HashedWords


def test_the_positives_are_the_pairs_of_high_gold_score() -> None:
    first, second = ["a b", "a c", "d", "a b"], ["a b e", "d", "f g", "c"]
    bag = HashedWords(32)
    embedded = embed(bag, distinct([first, second]))
    found = positive_sides(embedded, ScoredPairs("four", np.array([4.2, 4.0, 5.0, 0.0]), first, second))
    assert found is not None, "4.0 is not above 4"
    for side, texts in zip(found, (["a b", "d"], ["a b e", "f g"]), strict=True):
        assert (side == bag(texts)).all()
    none = ScoredPairs("none", np.array([-1.0, -2.0, -3.0, -4.0]), first, second)
    assert positive_sides(embedded, none) is None


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


def test_measures_are_those_of_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four rows a tile, so that vectors are of one tile, exactly one, and of several."""
    monkeypatch.setattr(tiles, "SIDE", 4)
    monkeypatch.setattr(tiles, "ELEMENTS", 20)
    for n, t in ((2, 0.5), (4, 2.0), (13, 0.5)):
        vectors, others = uneven(n), uneven(n, 1)
        rows = vectors.tolist()
        near = sum(squared_distance(u, v) for u, v in zip(rows, others.tolist(), strict=True)) / n
        assert alignment(vectors, others) == pytest.approx(near, rel=1e-12)
        assert alignment(vectors, -vectors) == pytest.approx(4)
        all_of_them = [(rows[i], rows[j]) for i in range(n) for j in range(i + 1, n)]
        terms = [math.exp(-t * squared_distance(*pair)) for pair in all_of_them]
        assert uniformity(vectors, t) == pytest.approx(math.log(sum(terms) / len(terms)), rel=1e-11)
        found = geometry(vectors, (vectors, others))
        assert found.uniformity == uniformity(vectors)
        assert found.mean_cosine == pytest.approx(np.mean([cosine(*pair) for pair in all_of_them]), rel=1e-11)
        singular = np.linalg.svd(np.array([unit(row) for row in rows]), compute_uv=False)
        assert found.singular_values == pytest.approx((singular / singular[0]).tolist(), abs=1e-7)
        assert found.top_eigenvalue == pytest.approx(singular[0] ** 2)
        assert found.positives is not None
        assert (found.positives.n, found.positives.alignment) == (n, alignment(vectors, others))


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
