"""Texts are encoded once each, and vectors are looked up, paired and checked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from opencse.errors import UserError
from opencse.evaluation import ScoredPairs
from opencse.evaluation.embedding import EmbeddingModel, Searching, checked, distinct, embed, embed_for_search
from scores import spearman_of


def letters(texts: Sequence[str]) -> NDArray[np.float64]:
    return np.array([[text.count(letter) for letter in "abc"] for text in texts], dtype=np.float64)


def test_vectors_are_looked_up_by_text() -> None:
    embedded = embed(letters, distinct([["aab", "c"], ["c", "b"]]))
    assert len(embedded) == 3
    assert embedded.of(["b", "aab", "b"]).tolist() == [[0, 1, 0], [2, 1, 0], [0, 1, 0]]
    assert embedded.cosines(["aab", "c"], ["b", "c"]) == pytest.approx([1 / np.sqrt(5), 1])
    assert embedded.pair_features(["aab"], ["b"]).tolist() == [[2, 0, 0, 0, 1, 0]]


def test_queries_and_documents_are_encoded_by_one_call_unless_they_differ() -> None:
    calls: list[list[str]] = []

    def encode(texts: Sequence[str]) -> NDArray[np.float64]:
        calls.append(list(texts))
        return letters(texts)

    searches = [(["a"], ["b", "c"]), (["b"], ["c", "ab"])]
    same = embed_for_search(EmbeddingModel("m", encode), searches)
    assert calls == [["a", "b", "c", "ab"]]
    assert same.queries is same
    calls.clear()
    model = EmbeddingModel("m", encode, searching=Searching(lambda texts: 2 * encode(texts), encode))
    different = embed_for_search(model, searches)
    assert calls == [["b", "c", "ab"], ["a", "b"]]
    assert different.queries.of(["b"]).tolist() == [[0, 2, 0]]
    assert different.of(["b"]).tolist() == [[0, 1, 0]]
    assert len(different) == 5


def test_a_changed_model_changes_every_encoding_and_has_no_layers() -> None:
    model = EmbeddingModel("m", letters, searching=Searching(letters, letters))
    doubled = model.mapped(lambda encode: lambda texts: 2 * encode(texts), name="double")
    assert (doubled.name, doubled.layers) == ("double", None)
    assert doubled.searching is not None
    assert doubled.searching.queries(["a"]).tolist() == doubled.encode(["a"]).tolist() == [[2, 0, 0]]


def test_the_first_text_without_a_finite_vector_is_named() -> None:
    vectors = letters(["a", "b", "c"])
    vectors[1, 0] = np.nan
    with pytest.raises(UserError, match=r"NaN or infinite values for 1 of 3 sentences \(first: 'b'\)"):
        checked(["a", "b", "c"], vectors)


@pytest.mark.parametrize("shape", [(3,), (1, 4), (4, 0)])
def test_arrays_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    pairs = ScoredPairs("p", np.array([1.0, 2.0]), ["a", "b"], ["c", "d"])
    with pytest.raises(ValueError, match=r"for 4 texts; \(n, d\) is expected"):
        spearman_of(lambda texts: np.zeros(shape), pairs)


def test_arrays_of_another_type_are_refused() -> None:
    pairs = ScoredPairs("p", np.array([1.0, 2.0]), ["a", "b"], ["c", "d"])
    with pytest.raises(ValueError, match="type int64"):
        spearman_of(lambda texts: np.zeros((4, 2), dtype=np.int64), pairs)
