"""The network of an encoder: its properties, its copies and its two forward passes."""

from __future__ import annotations

import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.modules.dense import Dense, Projection
from opencse.modules.pooling import Pooling

TEXTS = ["A dog runs.", "The cat sleeps on the mat in the sun."]


def test_dimensions_count_dense_layers_and_the_training_head(encoder: SentenceEncoder) -> None:
    assert (encoder.depth, encoder.dimension, encoder.training_dimension) == (3, 32, 32)
    encoder.dense.append(Dense(32, 8))
    encoder.projection = Projection(8, torch.Generator().manual_seed(0), 5)
    assert (encoder.dimension, encoder.training_dimension) == (8, 5)
    assert encoder.batch_heads == [encoder.projection]


def test_a_twin_is_independent_and_shares_the_tokenizer(encoder: SentenceEncoder) -> None:
    twin = encoder.twin()
    assert twin.tokenizer is encoder.tokenizer
    with torch.no_grad():
        next(twin.parameters()).add_(1)
    assert not torch.equal(next(twin.parameters()), next(encoder.parameters()))


@pytest.mark.parametrize("pooling", [Pooling.CLS, Pooling.MEAN, Pooling.FIRST_LAST_0])
def test_the_training_forward_without_dropout_gives_the_vectors_of_inference(
    pooling: Pooling, encoder: SentenceEncoder
) -> None:
    encoder.pooling = pooling
    tokens = encoder.tokenizer.pad(encoder.tokenize(TEXTS))
    with torch.no_grad():
        inferred = encoder.embed(tokens)
        for encoder.computation in ("transformers", "packed"):
            output = encoder(tokens, layers=[1])
            assert output.sentence is not None
            assert (output.sentence - inferred).abs().max() < 1e-5
            assert output.layers[1].shape == (2, 32)


def test_dropout_is_off_in_the_block_alone(encoder: SentenceEncoder) -> None:
    encoder.train()
    with encoder.without_dropout():
        assert not encoder.backbone.training
    assert encoder.backbone.training
    assert encoder.has_dropout


def test_masked_tokens_need_a_masked_lm_head(encoder: SentenceEncoder) -> None:
    from opencse.kernels.outputs import MaskedTokens

    tokens = encoder.tokenizer.pad(encoder.tokenize(TEXTS))
    with pytest.raises(RuntimeError, match="without a masked-LM head"):
        encoder(None, masked=MaskedTokens(tokens, tokens.attention_mask.bool()))
