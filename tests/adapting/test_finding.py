"""Ranks, what they are worth, and noise; against naive counts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from opencse import UserError
from opencse.adapting.finding import Measure, answer_ranks, paired_difference
from opencse.evaluation.measures import ndcg, reciprocal_rank


def naive_rank(query: np.ndarray, candidates: np.ndarray, answer: int, own: int) -> int:
    def cosine(a: np.ndarray, b: np.ndarray) -> float:
        return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))

    of_answer = cosine(query, candidates[answer])
    better = [c for c in range(len(candidates)) if c not in (answer, own) and cosine(query, candidates[c]) > of_answer]
    return 1 + len(better)


def test_ranks_are_those_of_a_naive_count() -> None:
    random = np.random.default_rng(0)
    queries, candidates = random.normal(size=(300, 8)), random.normal(size=(40, 8)) * random.uniform(0.1, 9, (40, 1))
    answers, own = random.integers(40, size=300), random.integers(-1, 40, size=300)
    own[own == answers] = -1
    wanted = [naive_rank(q, candidates, a, o) for q, a, o in zip(queries, answers, own, strict=True)]
    assert answer_ranks(queries, candidates, answers, own).tolist() == wanted
    assert len(set(wanted)) > 10


def test_the_query_itself_is_no_candidate() -> None:
    candidates = np.array([[1.0, 0.0], [1.0, 0.2], [0.0, 1.0]])
    query = candidates[:1]
    assert answer_ranks(query, candidates, np.array([1]), np.array([0])).tolist() == [1]
    assert answer_ranks(query, candidates, np.array([1]), np.array([-1])).tolist() == [2]


def test_one_vector_for_everything_finds_nothing() -> None:
    same = np.ones((50, 4))
    ranks = answer_ranks(same[:9], same, np.arange(9), np.full(9, -1))
    assert (ranks == 50).all()
    assert Measure().of_ranks(ranks).tolist() == [0.0] * 9


@pytest.mark.parametrize("k", [1, 3, 10])
def test_measures_of_a_rank_are_those_of_its_ranking(k: int) -> None:
    ranks = np.arange(1, 15)
    rankings = [[int(place == rank) for place in range(1, 15)] for rank in ranks]
    assert Measure("ndcg", k).of_ranks(ranks) == pytest.approx([100 * ndcg(r, [1], k) for r in rankings])
    assert Measure("mrr", k).of_ranks(ranks) == pytest.approx([100 * reciprocal_rank(r, k) for r in rankings])
    assert Measure("recall", k).of_ranks(ranks).tolist() == [100.0 * (rank <= k) for rank in ranks]


def test_metrics_by_name() -> None:
    assert Measure.parse("nDCG@10") == Measure("ndcg", 10)
    assert str(Measure.parse("mrr@5")) == "MRR@5"
    for wrong in ("ndcg", "map@10", "recall@0", "ndcg@ten"):
        with pytest.raises(UserError, match="known: ndcg@K"):
            Measure.parse(wrong)


def test_the_error_of_independent_questions_is_the_usual_one() -> None:
    random = np.random.default_rng(1)
    before, after = random.uniform(size=50), random.uniform(size=50)
    found = paired_difference(before, after, np.arange(50))
    difference = after - before
    assert found.value == pytest.approx(difference.mean())
    assert found.error == pytest.approx(difference.std(ddof=1) / math.sqrt(50))
    low, high = found.interval
    assert (low + high) / 2 == pytest.approx(found.value)


def test_copies_of_a_question_are_no_new_evidence() -> None:
    random = np.random.default_rng(2)
    before, after = random.uniform(size=30), random.uniform(size=30)
    once = paired_difference(before, after, np.arange(30))
    thrice = paired_difference(np.repeat(before, 3), np.repeat(after, 3), np.repeat(np.arange(30), 3))
    assert thrice.error == pytest.approx(once.error)
    assert paired_difference(before, after, np.zeros(30, dtype=np.int64)).error == math.inf
