"""Hidden states and sentence vectors of each layer."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.layers import layer_states, layer_vectors, require_layer, token_ids, vectors_by_layer
from opencse.errors import UserError

TEXTS = ["A dog runs.", "The cat sleeps on the mat in the sun.", "Rain."]


def test_the_last_layer_has_the_vectors_of_encode(encoder: SentenceEncoder) -> None:
    assert np.abs(layer_vectors(encoder, TEXTS, encoder.depth) - encoder.encode(TEXTS)).max() < 1e-5


def test_several_layers_are_those_of_one_by_one(encoder: SentenceEncoder) -> None:
    vectors = vectors_by_layer(encoder, TEXTS, [0, 2])
    assert list(vectors) == [0, 2]
    for layer, rows in vectors.items():
        assert np.array_equal(rows, layer_vectors(encoder, TEXTS, layer))


def test_states_are_those_of_the_backbone(encoder: SentenceEncoder) -> None:
    ids = token_ids(encoder, TEXTS)
    (batch,) = layer_states(encoder, ids)
    assert sorted(batch.rows.tolist()) == [0, 1, 2]
    assert len(batch.states) == encoder.depth + 1
    with torch.inference_mode():
        expected = encoder.backbone(input_ids=batch.tokens.input_ids, attention_mask=batch.mask).last_hidden_state
    assert torch.equal(batch.states[-1], expected)


def test_layers_that_do_not_exist_are_refused(encoder: SentenceEncoder) -> None:
    with pytest.raises(UserError, match=r"layers 0 \(output of the embeddings\) to 3, not 4"):
        require_layer(encoder, 4)
    with pytest.raises(UserError, match="this encoder has no layers"):
        require_layer(SentenceEncoder("opencse-mini", device="cpu"), None)
    with pytest.raises(UserError, match="token_budget is at least 1"):
        next(layer_states(encoder, [], 0))
