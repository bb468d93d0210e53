"""The nearest rows and the rank of an answer, against a sort of all similarities computed pair by pair."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fuzzing import examples
from opencse import ranking
from opencse.arrays import Floats, Vectors
from opencse.modules.similarity import Similarity
from opencse.ranking import Measure, answer_ranks, nearest_prepared, nearest_rows


def naive(query: Vectors, corpus: Vectors, similarity: Similarity) -> list[float]:
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
    for name in ("_BLOCK", "_FIRST_BLOCK", "_QUERIES", "_PAIRS"):
        monkeypatch.setattr(ranking, name, block)
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
    compared: list[int] = []
    candidates = ranking._candidates

    def counted(queries: Any, *rest: Any) -> Any:
        compared.append(len(queries))
        return candidates(queries, *rest)

    monkeypatch.setattr(ranking, "_candidates", counted)
    corpus = np.random.default_rng(0).normal(size=(500, 4))
    queries = np.zeros((70, 4))
    queries[3] = corpus[20]
    positions, scores = nearest_rows(queries, corpus, 5)
    assert positions[0].tolist() == positions[69].tolist() == [0, 1, 2, 3, 4]
    assert positions[3, 0] == 20
    assert not scores[:3].any()
    assert compared == [1]


@pytest.mark.parametrize(
    ("queries", "blocks"), [(1, [50, 800, 150]), (2, [50, 400, 400, 150]), (8, [50, *[100] * 9, 50])]
)
def test_few_queries_are_compared_with_many_rows_at_a_time(
    monkeypatch: pytest.MonkeyPatch, queries: int, blocks: list[int]
) -> None:
    """Blocks that copy rows stay small."""
    monkeypatch.setattr(ranking, "_FIRST_BLOCK", 50)
    monkeypatch.setattr(ranking, "_BLOCK", 100)
    monkeypatch.setattr(ranking, "_QUERIES", 8)
    monkeypatch.setattr(ranking, "_JOINING", 2_000)
    rough, compared = Similarity.rough, list[int]()

    def counted(self: Similarity, a: Any, b: Any) -> Any:
        compared.append(len(b))
        return rough(self, a, b)

    monkeypatch.setattr(Similarity, "rough", counted)
    vectors = unit(np.random.default_rng(0).normal(size=(1_000, 6)))
    nearest, _ = nearest_prepared(vectors[:queries], vectors, 3)
    assert nearest[:, 0].tolist() == list(range(queries))
    assert compared == blocks
    compared.clear()
    nearest_prepared(vectors[:queries], vectors, 3, np.arange(1_000))
    nearest_prepared(vectors[:queries], vectors, 3, similarity=Similarity.EUCLIDEAN)
    assert max(compared) == 100


@pytest.mark.parametrize(
    ("queries", "corpus", "k"), [((1, 2), (3, 2), 0), ((1, 2), (0, 2), 1), ((1, 2), (3, 4), 1), ((2,), (3, 2), 1)]
)
def test_shapes_that_do_not_fit(queries: tuple[int, ...], corpus: tuple[int, ...], k: int) -> None:
    with pytest.raises(ValueError, match=r"\(n, d\) and \(m, d\)"):
        nearest_rows(np.ones(queries), np.ones(corpus), k)


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
