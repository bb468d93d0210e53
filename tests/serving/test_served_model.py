"""A served model: tokens and vectors as offline, truncation, refused ids."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.serving.errors import ApiError
from opencse.serving.limits import Limits
from opencse.serving.metrics import Metrics
from opencse.serving.served_model import ServedModel

pytestmark = pytest.mark.anyio


@pytest.fixture
def served(model: SentenceEncoder) -> Iterator[ServedModel]:
    """The tiny model with its threads."""
    served = ServedModel("tiny", model, Limits(), Metrics())
    yield served
    served.close()
    assert not served.alive


async def test_vectors_are_those_of_encode(served: ServedModel, offline: SentenceEncoder) -> None:
    texts = ["Snow fell.", "snow and ice " * 60, "Tea?"]
    tokens = await served.read(texts, prompt="", truncate=True)
    assert tokens.truncated == [1]
    assert tokens.tokens == sum(len(row) for row in offline.tokenize(texts))
    assert np.allclose(await served.vectors(tokens), offline.encode(texts), atol=1e-5)


async def test_vectors_in_bf16_are_those_of_encode_in_bf16(model: SentenceEncoder, offline: SentenceEncoder) -> None:
    served = ServedModel("tiny", model, Limits(), Metrics(), precision="bf16")
    texts = ["Snow fell."]
    vectors = await served.vectors(await served.read(texts, prompt="", truncate=True))
    served.close()
    assert vectors.dtype == np.float32
    assert np.array_equal(vectors, offline.encode(texts, precision="bf16"))
    assert not np.array_equal(vectors, offline.encode(texts))


async def test_long_texts_are_refused_where_truncation_is_not_allowed(served: ServedModel) -> None:
    with pytest.raises(ApiError, match=r'input 1 has at least .*"truncate": true'):
        await served.read(["Tea?", "snow and ice " * 60], prompt="", truncate=False)
    with pytest.raises(ApiError, match="input 0 has at least 67 tokens"):
        await served.read([[5] * 65], prompt="", truncate=False)


async def test_token_ids_are_checked(served: ServedModel, offline: SentenceEncoder) -> None:
    ids = offline.tokenizer.encode(["Snow fell."], None)[0].tolist()
    tokens = await served.read([ids], prompt="", truncate=True)
    assert np.allclose(await served.vectors(tokens), offline.encode(["Snow fell."]), atol=1e-5)
    for wrong in (-1, 10**6):
        with pytest.raises(ApiError, match=f"input 0 holds token id {wrong}") as caught:
            await served.read([[*ids, wrong]], prompt="", truncate=True)
        assert caught.value.code == "invalid_token_id"
