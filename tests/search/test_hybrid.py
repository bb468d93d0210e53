"""Merging two rankings: both scores are scaled to [0, 1], and the ends of the weight are the parts."""

from __future__ import annotations

import numpy as np
import pytest

from opencse.ranking import nearest_prepared
from opencse.search.hybrid import RowsInMemory, WordScores, candidates_of

RANDOM = np.random.default_rng(0)
VECTORS = RANDOM.normal(size=(200, 8)).astype(np.float32)
VECTORS /= np.linalg.norm(VECTORS, axis=1, keepdims=True)


def test_a_document_is_its_best_passage_and_its_first_one() -> None:
    counts = [1, 3, 2, 194]
    near, _ = nearest_prepared(VECTORS[:1], VECTORS, 200)
    by_words = WordScores(np.array([0.0, 2.0, 1.0, 0.0]), 1.0)
    candidates = candidates_of(VECTORS[0], near[0], by_words, RowsInMemory(VECTORS, counts=counts), depth=40)
    cosines = (VECTORS.astype(float) @ VECTORS[0].astype(float)).tolist()
    of_each = [(max(cosines[begin:end]) + cosines[begin]) / 2 for begin, end in ((0, 1), (1, 4), (4, 6), (6, 200))]
    low, high = min(cosines), max(of_each)
    assert candidates.rows.tolist() == [0, 1, 2, 3]
    assert candidates.by_vectors.tolist() == pytest.approx([(one - low) / (high - low) for one in of_each], abs=1e-6)
    assert candidates.by_words.tolist() == [0, 1, 0.5, 0]
