"""`similarity`: cosine of texts and of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError

A, B = ["A dog.", "A cat sits.", "Nobody is here at all."], ["A dog.", "It rains."]


def test_texts_against_a_loop(encoder: SentenceEncoder) -> None:
    scores = encoder.similarity(A, B)
    assert scores.shape == (3, 2)
    assert scores.dtype == np.float32
    for i, a in enumerate(encoder.encode(A).astype(np.float64)):
        for j, b in enumerate(encoder.encode(B).astype(np.float64)):
            assert scores[i, j] == pytest.approx(float(a @ b) / (float(a @ a) * float(b @ b)) ** 0.5, abs=1e-6)
    assert scores[0, 0] == pytest.approx(1, abs=1e-6)
    assert scores[0, 1] < 0.999


def test_diagonal_is_one_and_texts_mix_with_vectors(encoder: SentenceEncoder) -> None:
    scores = encoder.similarity(A, A)
    assert np.abs(np.diag(scores) - 1).max() < 1e-6
    assert np.allclose(scores, scores.T, atol=1e-6)
    assert np.array_equal(encoder.similarity(A, encoder.encode(B)), encoder.similarity(A, B))
    assert encoder.similarity("A dog.", B).shape == (1, 2)
    assert encoder.similarity(encoder.encode("A dog."), B).shape == (1, 2)
    assert encoder.similarity([], B).shape == (0, 2)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64])
def test_vectors_of_any_number_type(encoder: SentenceEncoder, dtype: Any) -> None:  # a numpy scalar type
    a = np.array([[300, 400], [0, 2]], dtype=dtype)
    assert encoder.similarity(a, a) == pytest.approx(np.array([[1, 0.8], [0.8, 1]]), abs=1e-6)


def test_zero_vectors_give_zero(encoder: SentenceEncoder) -> None:
    scores = encoder.similarity(np.array([[0.0, 0.0], [1.0, 2.0]]), np.array([[1.0, 2.0], [0.0, 0.0]]))
    assert scores == pytest.approx(np.array([[0, 0], [1, 0]]), abs=1e-6)


@pytest.mark.parametrize(
    ("a", "message"),
    [
        (np.zeros((2, 3, 4)), "of shape \\(2, 3, 4\\)"),
        (np.array(3.0), "of shape \\(\\)"),
        (np.zeros((2, 7)), "vectors of 7 and of 32 dimensions"),
        (np.array(["a dog"]), "of numbers, not <U5"),
    ],
)
def test_wrong_arrays_are_named(encoder: SentenceEncoder, a: Any, message: str) -> None:  # any array
    with pytest.raises(UserError, match=message):
        encoder.similarity(a, B)
