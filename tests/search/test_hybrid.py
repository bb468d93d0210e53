"""Merging two rankings: both scores are scaled to [0, 1], and the ends of the weight are the parts."""

from __future__ import annotations

import numpy as np
import pytest

from opencse.ranking import nearest_prepared
from opencse.search.hybrid import Candidates, RowsInMemory, candidates_of, evenly_spread
from opencse.search.keyword_index import best_rows

RANDOM = np.random.default_rng(0)
VECTORS = RANDOM.normal(size=(200, 8)).astype(np.float32)
VECTORS /= np.linalg.norm(VECTORS, axis=1, keepdims=True)
WORDS = np.where(RANDOM.random(200) < 0.3, RANDOM.random(200), 0.0)


def merged() -> Candidates:
    rows = RowsInMemory(VECTORS)
    near, _ = nearest_prepared(VECTORS[:1], VECTORS, 40)
    return candidates_of(VECTORS[0], near[0], WORDS, rows, depth=40)


def test_both_scores_are_scaled_and_their_best_is_1() -> None:
    candidates = merged()
    for scores in (candidates.by_vectors, candidates.by_words):
        assert scores.max() == pytest.approx(1)
        assert scores.min() >= 0
    assert 40 < len(candidates.rows) < 80


def test_the_ends_of_the_weight_are_the_parts() -> None:
    candidates = merged()
    near, _ = nearest_prepared(VECTORS[:1], VECTORS, 40)
    assert candidates.ranking(1.0)[0][:40].tolist() == near[0].tolist()
    assert candidates.ranking(0.0)[0][:40].tolist() == best_rows(WORDS, 40).tolist()
    assert candidates.ranking(0.0)[0][:40].tolist() != candidates.ranking(1.0)[0][:40].tolist()


def test_rows_without_a_common_word_follow_by_similarity() -> None:
    candidates = Candidates(np.arange(4), np.array([0.1, 0.9, 0.5, 0.2]), np.array([0.0, 0.0, 0.0, 1.0]))
    assert candidates.ranking(0.0)[0].tolist() == [3, 1, 2, 0]


def test_no_candidate_gives_an_empty_ranking() -> None:
    rows = RowsInMemory(VECTORS)
    nothing = candidates_of(VECTORS[0], np.array([-1]), np.zeros(200), rows, depth=10)
    assert [len(part) for part in nothing.ranking(0.5)] == [0, 0]


def test_spread_positions_are_at_most_as_many_as_requested() -> None:
    assert len(evenly_spread(np.arange(9_000))) == 3_000
    assert evenly_spread(np.arange(3)).tolist() == [0, 1, 2]
    assert evenly_spread(np.arange(0)).tolist() == []
