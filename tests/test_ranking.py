"""The nearest rows against a sort of all similarities, and measures of a ranking against naive loops and trec_eval."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fuzzing import examples
from opencse import ranking
from opencse.arrays import Floats, Vectors
from opencse.errors import UserError
from opencse.ranking import (
    Measure,
    answer_ranks,
    average_precision,
    ndcg,
    nearest_prepared,
    recall,
    reciprocal_rank,
)


def naive_rank(query: Vectors, candidates: Vectors, answer: int, own: int) -> int:
    def cosine(a: Vectors, b: Vectors) -> float:
        return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))

    of_answer = cosine(query, candidates[answer])
    better = [c for c in range(len(candidates)) if c not in (answer, own) and cosine(query, candidates[c]) > of_answer]
    return 1 + len(better)


def test_ranks_equal_a_naive_count() -> None:
    random = np.random.default_rng(0)
    queries, candidates = random.normal(size=(300, 8)), random.normal(size=(40, 8)) * random.uniform(0.1, 9, (40, 1))
    answers, own = random.integers(40, size=300), random.integers(-1, 40, size=300)
    own[own == answers] = -1
    expected = [naive_rank(q, candidates, a, o) for q, a, o in zip(queries, answers, own, strict=True)]
    assert answer_ranks(queries, candidates, answers, own).tolist() == expected
    assert len(set(expected)) > 10


@given(seed=st.integers(0, 2**20), rows=st.integers(1, 60), k=st.integers(1, 70), kinds=st.integers(1, 8))
@examples(60)
def test_exact_search_is_brute_force_with_ties_in_their_order(seed: int, rows: int, k: int, kinds: int) -> None:
    random = np.random.default_rng(seed)
    different = unit(random.normal(size=(kinds, 5)))
    vectors = different[random.integers(0, kinds, rows)]
    queries = unit(random.normal(size=(3, 5)))
    half = np.flatnonzero(random.random(rows) < 0.6)
    for subset in (None, half):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ranking, "_BLOCK", 7)
            patch.setattr(ranking, "SPARE", 1)
            nearest, scores = nearest_prepared(queries, vectors, k, subset)
        among = np.arange(rows) if subset is None else half
        products = (queries[:, None].astype(np.float64) * vectors[among].astype(np.float64)).sum(axis=2)
        for row in range(3):
            order = np.lexsort((among, -products[row]))[:k]
            assert nearest[row].tolist() == among[order].tolist()
            assert scores[row].tolist() == products[row][order].tolist()


def unit(vectors: Floats) -> NDArray[np.float32]:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


relevances = st.lists(st.integers(-1, 3), min_size=1, max_size=30)


def naive_measures(levels: Sequence[int], judged: Sequence[int], k: int) -> dict[str, float]:
    """By the definitions, one loop each."""
    relevant = 0
    for level in judged:
        if level > 0:
            relevant += 1
    gain, hits, precisions, first = 0.0, 0, 0.0, 0.0
    for rank in range(1, min(k, len(levels)) + 1):
        if levels[rank - 1] > 0:
            gain += levels[rank - 1] / math.log(rank + 1, 2)
            hits += 1
            precisions += hits / rank
            if hits == 1:
                first = 1 / rank
    ideal = 0.0
    for rank, level in enumerate(sorted([level for level in judged if level > 0], reverse=True), start=1):
        if rank <= k:
            ideal += level / math.log(rank + 1, 2)
    return {"ndcg": gain / ideal, "recall": hits / relevant, "rr": first, "ap": precisions / relevant}


def ours(levels: Sequence[int], judged: Sequence[int], k: int) -> dict[str, float]:
    return {
        "ndcg": ndcg(levels, judged, k),
        "recall": recall(levels, judged, k),
        "rr": reciprocal_rank(levels, k),
        "ap": average_precision(levels, judged, k),
    }


@given(levels=relevances, unranked=st.lists(st.integers(0, 3), max_size=12), k=st.integers(1, 35))
def test_measures_equal_their_definitions(levels: list[int], unranked: list[int], k: int) -> None:
    judged = [*levels, *unranked, 1]
    assert ours(levels, judged, k) == pytest.approx(naive_measures(levels, judged, k), abs=1e-12)


def test_metrics_by_name() -> None:
    assert Measure.parse("nDCG@10") == Measure("ndcg", 10)
    assert str(Measure.parse("mrr@5")) == "MRR@5"
    for name, values in (("ndcg@3", [100, 50, 0]), ("mrr@3", [100, 100 / 3, 0]), ("recall@3", [100, 100, 0])):
        measure = Measure.parse(name)
        assert measure.of_ranks(np.array([1, 3, 4])) == pytest.approx(values)
        assert [measure.of_ranking([0] * (rank - 1) + [1], [1]) for rank in (1, 3, 4)] == pytest.approx(values)
    for wrong in ("ndcg", "map@10", "recall@0"):
        with pytest.raises(UserError, match="known: ndcg@K"):
            Measure.parse(wrong)
