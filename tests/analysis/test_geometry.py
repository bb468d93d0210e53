"""The record of a model's geometry: every number is that of its own function, and what was drawn is told."""

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from opencse.analysis.alignment import alignment, all_pairs, positive_sides, uniformity
from opencse.analysis.geometry import Geometry, geometry
from opencse.analysis.spectrum import correlation_rank, effective_rank, moments
from opencse.errors import UserError
from opencse.evaluation import Encode, ScoredPairs, distinct, embed, read_scored_pairs

Vectors = NDArray[np.float32]


def some(n: int, seed: int = 0) -> Vectors:
    return np.asarray(np.random.default_rng(seed).normal(0.4, 1, size=(n, 6)), dtype=np.float32)


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


def test_each_number_is_that_of_its_function() -> None:
    vectors, left, right = some(50), some(9, 1), some(9, 2)
    found = geometry(vectors, (left, right), t=3.0, first=(1, 4, 7))
    sums = moments(vectors)
    values = sums.singular_values()
    assert (found.n, found.dimension, found.uniformity_n, found.t) == (50, 6, 50, 3.0)
    assert found.uniformity == uniformity(vectors, 3.0)
    assert found.least_cosine == all_pairs(vectors).least
    assert found.mean_cosine == sums.mean_cosine()
    assert found.sum_gram == sums.sum_of_gram()
    assert found.top_eigenvalue == pytest.approx(values[0] ** 2)
    assert found.singular_values == pytest.approx(values / values[0])
    assert found.singular_values[0] == 1
    assert found.effective_rank == pytest.approx(effective_rank(values))
    assert found.variance_first == sums.variance_shares((1, 4))
    assert found.positives is not None
    assert found.positives.n == 9
    assert found.positives.alignment == alignment(left, right)
    assert found.positives.correlation_rank == correlation_rank(left, right) == 6
    assert geometry(vectors).positives is None


def test_above_the_limit_the_pairs_of_some_are_taken_and_told() -> None:
    vectors = some(60)
    before = vectors.copy()
    found = geometry(vectors, limit=20)
    assert (found.n, found.uniformity_n, found.seed) == (60, 20, 0)
    assert found == geometry(vectors, limit=20)
    assert found.uniformity != geometry(vectors, limit=20, seed=1).uniformity
    whole = geometry(vectors, limit=60)
    assert whole.uniformity_n == 60
    assert found.uniformity == pytest.approx(whole.uniformity, abs=0.5)
    assert (found.mean_cosine, found.effective_rank) == (whole.mean_cosine, whole.effective_rank)
    rows = np.sort(np.random.default_rng(0).choice(60, size=20, replace=False))
    assert found.uniformity == uniformity(vectors[rows])
    assert (vectors == before).all()
    with pytest.raises(UserError, match=r"limit .* at least 2, not 1"):
        geometry(vectors, limit=1)


def test_it_goes_through_json() -> None:
    for vectors in (some(12), np.ones((5, 3), dtype=np.float32)):
        found = geometry(vectors, (vectors, vectors))
        assert Geometry.model_validate_json(found.model_dump_json()) == found
    assert found.variance_first is None
    assert found.effective_rank == 1
    assert found.uniformity == pytest.approx(0, abs=1e-14)


def test_no_global_random_state_is_touched() -> None:
    state = np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    geometry(some(30), limit=5)
    assert (state == np.random.get_state()[1]).all()  # type: ignore[index]  # noqa: NPY002


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


def test_real_pairs_against_scipy(shared_data: Path) -> None:
    dev = read_scored_pairs(shared_data / "sts" / "stsb" / "dev.tsv")
    pairs = ScoredPairs("dev", dev.scores[:400], dev.first[:400], dev.second[:400])
    found = of_pairs(bag, pairs)
    texts = list(dict.fromkeys([*pairs.first, *pairs.second]))
    vectors = bag(texts).astype(np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    distances = pdist(vectors, "sqeuclidean")
    assert found.n == len(texts) > 700
    assert found.uniformity == pytest.approx(math.log(np.exp(-2 * distances).mean()), rel=1e-10)
    assert found.mean_cosine == pytest.approx((1 - distances / 2).mean(), rel=1e-10)
    chosen = [i for i in range(400) if pairs.scores[i] > 4]
    row = {text: vectors[i] for i, text in enumerate(texts)}
    near = [((row[pairs.first[i]] - row[pairs.second[i]]) ** 2).sum() for i in chosen]
    assert found.positives is not None
    assert found.positives.alignment == pytest.approx(np.mean(near), rel=1e-10)
    assert 20 < found.positives.n == len(chosen) < 200
