"""Exact search against a plain sort."""

from __future__ import annotations

import numpy as np
import pytest

from opencse.search import exact


@pytest.mark.parametrize("block", [1, 3, 1000])
def test_top_k_equals_a_sort_of_all_cosines(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(exact, "_BLOCK", block)
    random = np.random.default_rng(0)
    queries, corpus = random.normal(size=(4, 8)), random.normal(size=(20, 8))
    places, scores = exact.top_k(queries, corpus, 5)
    for query, row, found in zip(queries, places, scores, strict=True):
        cosines = [float(query @ c / np.linalg.norm(query) / np.linalg.norm(c)) for c in corpus]
        expected = sorted(range(20), key=lambda i: -cosines[i])[:5]
        assert list(row) == expected
        assert found == pytest.approx([cosines[i] for i in expected], abs=1e-6)


def test_no_more_than_the_corpus_and_zero_vectors_do_not_break() -> None:
    places, scores = exact.top_k(np.ones((1, 2)), np.array([[0.0, 0.0], [1.0, 1.0]]), 9)
    assert places.tolist() == [[1, 0]]
    assert scores[0].tolist() == pytest.approx([1.0, 0.0])
