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


def test_a_document_is_its_best_passage_and_its_first_one() -> None:
    counts = [1, 3, 2, 194]
    near, _ = nearest_prepared(VECTORS[:1], VECTORS, 200)
    by_words = np.array([0.0, 2.0, 1.0, 0.0])
    candidates = candidates_of(VECTORS[0], near[0], by_words, RowsInMemory(VECTORS, counts=counts), depth=40)
    cosines = (VECTORS.astype(float) @ VECTORS[0].astype(float)).tolist()
    of_each = [(max(cosines[begin:end]) + cosines[begin]) / 2 for begin, end in ((0, 1), (1, 4), (4, 6), (6, 200))]
    low, high = min(cosines), max(of_each)
    assert candidates.rows.tolist() == [0, 1, 2, 3]
    assert candidates.by_vectors.tolist() == pytest.approx([(one - low) / (high - low) for one in of_each], abs=1e-6)
    assert candidates.by_words.tolist() == [0, 1, 0.5, 0]


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
