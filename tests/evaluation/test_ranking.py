"""The nearest rows against a sort of all similarities, computed pair by pair."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from opencse.evaluation import ranking
from opencse.evaluation.ranking import nearest_rows
from opencse.modules.similarity import Similarity
from opencse.search import exact

Floats = NDArray[np.float64]


def naive(query: NDArray[np.floating], corpus: NDArray[np.floating], similarity: Similarity) -> list[float]:
    scores = []
    for row in corpus.tolist():
        dot = sum(float(q) * c for q, c in zip(query.tolist(), row, strict=True))
        lengths = math.sqrt(sum(q * q for q in query.tolist())) * math.sqrt(sum(c * c for c in row))
        scores.append(dot if similarity == "dot" else dot / lengths)
    return scores


@pytest.mark.parametrize("similarity", [Similarity.COSINE, Similarity.DOT])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("block", [1, 7, 1000])
def test_a_sort_of_all_similarities(
    monkeypatch: pytest.MonkeyPatch, similarity: Similarity, dtype: type[np.floating], block: int
) -> None:
    monkeypatch.setattr(exact, "_BLOCK", block)
    monkeypatch.setattr(ranking, "QUERIES", block)
    monkeypatch.setattr(ranking, "PAIRS", block)
    random = np.random.default_rng(0)
    queries = random.normal(size=(5, 6)).astype(dtype)
    corpus = (random.normal(size=(200, 6)) * random.uniform(0.1, 9, size=(200, 1))).astype(dtype)
    positions, scores = nearest_rows(queries, corpus, 9, similarity)
    assert positions.shape == scores.shape == (5, 9)
    for query, places, values in zip(queries, positions.tolist(), scores.tolist(), strict=True):
        expected = naive(query, corpus, similarity)
        order = sorted(range(200), key=lambda place: -expected[place])[:9]
        assert places == order
        assert values == pytest.approx([expected[place] for place in order], rel=1e-9)


def test_cosine_and_dot_differ() -> None:
    query, corpus = np.array([[1.0, 0.0]]), np.array([[1.0, 0.1], [9.0, 9.0]])
    assert nearest_rows(query, corpus, 1)[0].tolist() == [[0]]
    assert nearest_rows(query, corpus, 1, Similarity.DOT)[0].tolist() == [[1]]


@pytest.mark.parametrize("similarity", [Similarity.COSINE, Similarity.DOT])
def test_equal_vectors_stand_in_corpus_order_wherever_they_are(similarity: Similarity) -> None:
    random = np.random.default_rng(1)
    kinds = random.normal(size=(3, 33)).astype(np.float32)
    corpus = kinds[np.arange(201) % 3]  # 67 copies of each, spread over the corpus
    positions, scores = nearest_rows(kinds[:1], corpus, 5, similarity)
    best = int(np.argmax([naive(kinds[0], kinds, similarity)]))
    assert positions[0].tolist() == [best + 3 * copy for copy in range(5)]
    assert len(set(scores[0].tolist())) == 1


def test_float64_decides_between_what_float32_cannot_tell_apart() -> None:
    angles = 1e-5 * np.arange(8, 0, -1)
    corpus = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    query = np.array([[1.0, 0.0]])
    assert len(np.unique((corpus @ query.T).astype(np.float32))) < 8
    assert nearest_rows(query, corpus, 3)[0].tolist() == [[7, 6, 5]]


def test_zero_vectors_and_a_corpus_smaller_than_k() -> None:
    corpus = np.array([[0.0, 0.0], [-1.0, 0.0], [1.0, 1.0]])
    positions, scores = nearest_rows(np.array([[2.0, 0.0], [0.0, 0.0]]), corpus, 9)
    assert positions.tolist() == [[2, 0, 1], [0, 1, 2]]
    assert scores.tolist() == [pytest.approx([math.sqrt(0.5), 0.0, -1.0]), [0.0, 0.0, 0.0]]
    assert nearest_rows(np.zeros((1, 2)), corpus, 2, Similarity.DOT)[0].tolist() == [[0, 1]]


def test_queries_without_a_direction_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows tie with them, and the search would take more and more candidates."""
    from opencse.search import exact

    compared: list[int] = []
    candidates = exact._candidates

    def counted(queries: Any, *rest: Any) -> Any:
        compared.append(len(queries))
        return candidates(queries, *rest)

    monkeypatch.setattr(exact, "_candidates", counted)
    corpus = np.random.default_rng(0).normal(size=(500, 4))
    queries = np.zeros((70, 4))
    queries[3] = corpus[20]
    positions, scores = nearest_rows(queries, corpus, 5)
    assert positions[0].tolist() == positions[69].tolist() == [0, 1, 2, 3, 4]
    assert positions[3, 0] == 20
    assert not scores[:3].any()
    assert compared == [1]


@pytest.mark.parametrize(
    ("queries", "corpus", "k"), [((1, 2), (3, 2), 0), ((1, 2), (0, 2), 1), ((1, 2), (3, 4), 1), ((2,), (3, 2), 1)]
)
def test_shapes_that_do_not_fit(queries: tuple[int, ...], corpus: tuple[int, ...], k: int) -> None:
    with pytest.raises(ValueError, match=r"\(n, d\) and \(m, d\)"):
        nearest_rows(np.ones(queries), np.ones(corpus), k)
