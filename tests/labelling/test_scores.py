"""Scores by labels, against the measures computed by hand."""

from __future__ import annotations

import math

import pytest

from opencse.labelling.labels import LabelledQuery, Level, PooledText
from opencse.labelling.pooling import Rankings
from opencse.labelling.session import FEWEST, score


def query(number: int, levels: dict[str, Level]) -> LabelledQuery:
    pool = [PooledText(id=name, digest="", ranks={}, level=level) for name, level in levels.items()]
    return LabelledQuery(number=number, text=f"query {number}", pool=tuple(pool), finished=True)


def test_means_intervals_and_what_was_judged() -> None:
    queries = [query(i, {"a": 2, "b": 1, "c": 0}) for i in range(1, 6)]
    best = {"vectors": ["a", "b"], "BM25": ["c", "a"], "hybrid": ["a", "b"]}
    worse = {**best, "vectors": ["x", "a"]}
    scores = score(queries, [Rankings(ids, {}) for ids in (best, best, best, best, worse)])
    ideal = 2 + 1 / math.log2(3)
    vectors, keywords, hybrid = scores.systems.values()
    assert vectors.ndcg_at_10 == pytest.approx(100 * (4 + (2 / math.log2(3)) / ideal) / 5)
    assert keywords.ndcg_at_10 == pytest.approx(100 * (2 / math.log2(3)) / ideal)
    assert (keywords.mrr_at_10, hybrid.mrr_at_10) == (50, 100)
    assert (keywords.interval, hybrid.interval) == (None, None), "all values are the same"
    assert vectors.interval is not None
    assert vectors.interval[0] < vectors.ndcg_at_10 <= vectors.interval[1] <= 100
    assert vectors.difference is None
    assert hybrid.difference == pytest.approx(100 - vectors.ndcg_at_10)
    assert hybrid.difference_interval is not None
    assert hybrid.difference_interval[0] < 0 < hybrid.difference_interval[1]
    assert (vectors.judged, hybrid.judged) == (0.9, 1.0)
    assert scores.warning in "\n".join(scores.lines())


def test_few_queries_have_no_scores() -> None:
    scores = score([query(i, {"a": 2}) for i in range(1, FEWEST)], [Rankings({}, {})] * (FEWEST - 1))
    assert scores.systems == {}
    assert scores.lines() == ["4 queries have a right text; scores are shown from 5 on"]
