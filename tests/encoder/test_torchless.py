"""The base class of encoders without torch; each of them is tested in its own file."""

from __future__ import annotations

import numpy as np
import pytest

import opencse
from opencse.encoder.torchless import TorchlessEncoder
from opencse.errors import UserError


def test_it_encodes_texts_and_ids_to_the_same_vectors() -> None:
    encoder = opencse.load("opencse-mini")
    assert isinstance(encoder, TorchlessEncoder)
    assert encoder.network_name == type(encoder).__name__
    texts = ["A kettle boils.", "Rain falls on the roof."]
    vectors = encoder.encode(texts)
    assert vectors.shape == (2, encoder.dimension)
    assert not np.allclose(vectors[0], vectors[1])
    assert np.array_equal(encoder.encode(texts[1]), vectors[1])


def test_a_device_that_it_cannot_use_is_refused() -> None:
    with pytest.raises(UserError, match="computes on the CPU"):
        opencse.load("opencse-mini").encode(["a"], device="cuda:0")
