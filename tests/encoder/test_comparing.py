"""Texts and vectors are compared by the same methods of every encoder."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opencse import SentenceEncoder, load
from opencse.encoder.comparing import as_vectors
from opencse.encoder.static import StaticEncoder
from opencse.errors import UserError


def test_an_encoder_without_torch_compares_as_the_other_does() -> None:
    static, encoder = load("opencse-mini"), SentenceEncoder.load("opencse-mini", device="cpu")
    assert isinstance(static, StaticEncoder)
    one, two = ["A dog runs.", "Tea?"], ["A dog is running.", "The tax is due."]
    assert static.similarity(one, two) == pytest.approx(encoder.similarity(one, two), abs=1e-6)
    pairs = static.similarity_pairwise(one, two)
    assert pairs == pytest.approx(np.diag(static.similarity(one, two)), abs=1e-6)
    assert pairs == pytest.approx(encoder.similarity_pairwise(one, two), abs=1e-6)
    with pytest.raises(UserError, match="row by row"):
        static.similarity_pairwise(one, two[:1])


def test_vectors_are_passed_on_and_texts_encoded() -> None:
    def encode(texts: Any) -> np.ndarray:
        return np.ones((len(texts), 3), dtype=np.float32)

    assert as_vectors("a", "one text", encode).shape == (1, 3)
    assert as_vectors("a", ["two", "texts"], encode).shape == (2, 3)
    assert as_vectors("a", np.zeros(4), encode).shape == (1, 4)
    with pytest.raises(TypeError, match="b is a text, texts or an array"):
        as_vectors("b", 3, encode)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="of shape"):
        as_vectors("a", np.zeros((1, 2, 3)), encode)
