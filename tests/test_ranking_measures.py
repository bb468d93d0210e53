"""The measures of a ranking against naive loops, cases worked by hand, and trec_eval itself where it is installed."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencse.errors import UserError
from opencse.ranking import Measure, average_precision, ndcg, recall, reciprocal_rank

relevances = st.lists(st.integers(-1, 3), min_size=1, max_size=30)


def naive(levels: Sequence[int], judged: Sequence[int], k: int) -> dict[str, float]:
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
    assert ours(levels, judged, k) == pytest.approx(naive(levels, judged, k), abs=1e-12)


def test_worked_by_hand() -> None:
    # Ranks 2 and 4 hold the levels 1 and 2; a document of level 1 was not levels.
    levels, judged = [0, 1, 0, 2], [1, 2, 1, 0]
    ideal = 2 / 1 + 1 / math.log2(3) + 1 / 2
    assert ndcg(levels, judged, 10) == pytest.approx((1 / math.log2(3) + 2 / math.log2(5)) / ideal)
    assert ndcg(levels, judged, 3) == pytest.approx((1 / math.log2(3)) / ideal)
    assert ndcg(levels, judged, 2) == pytest.approx((1 / math.log2(3)) / (2 + 1 / math.log2(3)))
    assert [recall(levels, judged, k) for k in (1, 2, 4, 9)] == pytest.approx([0, 1 / 3, 2 / 3, 2 / 3])
    assert [reciprocal_rank(levels, k) for k in (1, 2, 10)] == [0.0, 0.5, 0.5]
    assert average_precision(levels, judged, 10) == pytest.approx((1 / 2 + 2 / 4) / 3)
    assert average_precision(levels, judged, 3) == pytest.approx((1 / 2) / 3)


def test_the_best_and_the_worst_ranking() -> None:
    judged = [3, 1, 0, 0]
    assert ours([3, 1, 0, 0], judged, 10) == pytest.approx(dict.fromkeys(("ndcg", "recall", "rr", "ap"), 1.0))
    assert ours([0] * 10 + [3, 1], judged, 10) == dict.fromkeys(("ndcg", "recall", "rr", "ap"), 0.0)
    assert ours([], judged, 10) == dict.fromkeys(("ndcg", "recall", "rr", "ap"), 0.0)


def test_average_precision_is_divided_by_all_relevant_ones_beyond_k_too() -> None:
    assert average_precision([1] * 10, [1] * 20, 10) == pytest.approx(0.5)


def test_levels_below_zero_are_not_relevant() -> None:
    assert ours([-1, 1], [-1, 1], 10) == pytest.approx(ours([0, 1], [0, 1], 10))


@pytest.mark.skipif(importlib.util.find_spec("pytrec_eval") is None, reason="pytrec_eval is not installed")
@given(rankings=st.lists(st.tuples(relevances, st.lists(st.integers(0, 3), max_size=15)), min_size=1, max_size=3))
def test_trec_eval_agrees(rankings: list[tuple[list[int], list[int]]]) -> None:
    import pytrec_eval

    qrels: dict[str, dict[str, int]] = {}
    run: dict[str, dict[str, float]] = {}
    for number, (levels, unranked) in enumerate(rankings):
        judged = [*levels, *unranked, 1]
        qrels[f"q{number}"] = {f"d{place}": level for place, level in enumerate(judged)}
        run[f"q{number}"] = {f"d{place}": -float(place) for place in range(len(levels))}
    measures = {"ndcg_cut.10", "recall.1,10,100", "map_cut.10", "recip_rank"}
    theirs: Any = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(run)
    for number, (levels, unranked) in enumerate(rankings):
        judged = [*levels, *unranked, 1]
        of_query = theirs[f"q{number}"]
        assert ndcg(levels, judged, 10) == pytest.approx(of_query["ndcg_cut_10"], abs=1e-9)
        assert average_precision(levels, judged, 10) == pytest.approx(of_query["map_cut_10"], abs=1e-9)
        assert reciprocal_rank(levels, 100) == pytest.approx(of_query["recip_rank"], abs=1e-9)
        for k in (1, 10, 100):
            assert recall(levels, judged, k) == pytest.approx(of_query[f"recall_{k}"], abs=1e-9)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_a_measure_of_a_rank_equals_that_of_its_ranking(k: int) -> None:
    ranks = np.arange(1, 15)
    rankings = [[int(position == rank) for position in range(1, 15)] for rank in ranks]
    assert Measure("ndcg", k).of_ranks(ranks) == pytest.approx([100 * ndcg(r, [1], k) for r in rankings])
    assert Measure("mrr", k).of_ranks(ranks) == pytest.approx([100 * reciprocal_rank(r, k) for r in rankings])
    for name in ("ndcg", "mrr", "recall"):
        measure = Measure(name, k)
        assert measure.of_ranks(ranks) == pytest.approx([measure.of_ranking(r, [1]) for r in rankings])
    assert Measure("recall", k).of_ranks(ranks).tolist() == [100.0 * (rank <= k) for rank in ranks]


def test_metrics_by_name() -> None:
    assert Measure.parse("nDCG@10") == Measure("ndcg", 10)
    assert str(Measure.parse("mrr@5")) == "MRR@5"
    for wrong in ("ndcg", "map@10", "recall@0", "ndcg@ten"):
        with pytest.raises(UserError, match="known: ndcg@K"):
            Measure.parse(wrong)
