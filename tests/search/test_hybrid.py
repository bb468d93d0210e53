"""Merging two rankings: both scores are scaled to [0, 1], and the ends of the weight are the parts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from opencse.ranking import nearest_prepared
from opencse.search.hybrid import Candidates, RowsInMemory, WordScores, candidates_of
from opencse.search.keyword_index import KeywordIndex

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


TEXTS = ["the kettle boils the water", "the lantern glows in the dark", "the red kettle and the lamp", "a dog barks"]


def by_hand(query: str, by_vectors: list[float], weight: float) -> list[float]:
    """The scores of `TEXTS` for scaled similarities, by loops."""
    words = [set(text.split()) for text in TEXTS]
    rarity = {}
    for word in set(query.split()):
        count = sum(word in one for one in words)
        rarity[word] = math.log(1 + (len(TEXTS) - count + 0.5) / (count + 0.5))
    shares = [sum(rarity[word] for word in rarity if word in one) / sum(rarity.values()) for one in words]
    trust = 2 * max(shares) ** 2
    share = weight / (weight + (1 - weight) * trust)
    bm25 = KeywordIndex.of(TEXTS).scores(query).tolist()
    return [share * v + (1 - share) * b / max(bm25) for v, b in zip(by_vectors, bm25, strict=True)]


@pytest.mark.parametrize(
    ("query", "best"),
    [("the red kettle", 2), ("the pot sings loudly", 1)],
    ids=["in the documents' words", "in other words"],
)
def test_words_count_as_far_as_one_document_has_those_of_the_query(query: str, best: int) -> None:
    words = WordScores.of(KeywordIndex.of(TEXTS), query)
    by_vectors = [0.4, 1.0, 0.3, 0.0]
    found = Candidates(np.arange(4), np.array(by_vectors), words.scores / words.scores.max(), words.trust)
    rows, scores = found.ranking(0.5)
    assert scores[np.argsort(rows)].tolist() == pytest.approx(by_hand(query, by_vectors, 0.5))
    assert rows[0] == best
    assert KeywordIndex.of(TEXTS).covered("").tolist() == KeywordIndex.of([""]).covered("a").tolist() * 4
