"""A served model: tokens and vectors as offline, truncation, refused ids."""

from __future__ import annotations

import numpy as np
import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.serving.guard import Metrics
from opencse.serving.requests import Limits
from opencse.serving.served_model import ServedModel

pytestmark = pytest.mark.anyio


async def test_vectors_in_bf16_are_those_of_encode_in_bf16(model: SentenceEncoder, offline: SentenceEncoder) -> None:
    served = ServedModel("tiny", model, Limits(), Metrics(), precision="bf16")
    texts = ["Snow fell."]
    vectors = await served.vectors(await served.read(texts, prompt="", truncate=True))
    served.close()
    assert vectors.dtype == np.float32
    assert np.array_equal(vectors, offline.encode(texts, precision="bf16"))
    assert not np.array_equal(vectors, offline.encode(texts))
