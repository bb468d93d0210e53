"""The sentences nearest to a query, against a sort of all cosines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from opencse.evaluation.embedding import Encode, SearchEncode, distinct, embed
from opencse.evaluation.neighbours import compare_neighbours

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def letters(texts: Sequence[str]) -> NDArray[np.float64]:
    return np.array([[text.lower().count(letter) for letter in LETTERS] for text in texts], dtype=np.float64)


def searching(encode: Encode) -> SearchEncode:
    """A model that reads queries and sentences in the same way, by one call."""

    def both(queries: Sequence[str], texts: Sequence[str]) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        embedded = embed(encode, distinct([texts, queries]))
        return embedded.of(queries), embedded.of(texts)

    return both


CORPUS = ["a dog runs", "A  Dog runs", "the cat sleeps", "dogs run", "rain", "the cat sleeps", "a cat", "go"]


def naive(corpus: Sequence[str], query: str, k: int) -> list[tuple[str, float]]:
    """First spellings other than the query, by cosine, ties in corpus order."""
    first: dict[str, str] = {}
    for text in corpus:
        key = " ".join(text.lower().split())
        if key not in first and key != " ".join(query.lower().split()):
            first[key] = text
    scored = []
    for place, text in enumerate(first.values()):
        u, v = letters([query])[0], letters([text])[0]
        scored.append((-float(u @ v / np.sqrt((u @ u) * (v @ v))), place, text))
    return [(text, -cosine) for cosine, _, text in sorted(scored)[:k]]


@pytest.mark.parametrize(("query", "k"), [("a dog runs", 3), ("THE CAT  sleeps", 1), ("a bird sings", 20)])
def test_lists_equal_a_sort_of_all_cosines(query: str, k: int) -> None:
    found = compare_neighbours({"letters": searching(letters)}, CORPUS, [query], k=k)
    list_ = found.queries[0].models["letters"]
    expected = naive(CORPUS, query, k)
    assert [one.text for one in list_] == [text for text, _ in expected]
    assert [one.score for one in list_] == pytest.approx([cosine for _, cosine in expected])
    assert len(list_) == min(k, 6 if query == "a bird sings" else 5)
    assert (found.sentences, found.distinct, found.k) == (8, 6, k)
