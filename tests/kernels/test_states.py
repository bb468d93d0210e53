"""Hidden states in training, by transformers' forward and by the packed one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.kernels.states import ON_GPU, embedding_module, inference_computation, plain_states, trained_states

TEXTS = ["A dog runs.", "The cat sleeps on the mat in the sun."]


def test_packed_states_are_the_plain_ones_at_tokens(encoder: SentenceEncoder) -> None:
    tokens = encoder.tokenizer.pad(encoder.tokenize(TEXTS))
    plain = plain_states(encoder.backbone, tokens, need_all=True)
    packed = trained_states(encoder.backbone, tokens, [0, 2, 3], "packed")
    mask = tokens.attention_mask.bool()
    for layer, states in zip([0, 2, 3], packed, strict=True):
        assert (states[mask] - plain[layer][mask]).abs().max() < 1e-5


def test_leading_vectors_replace_the_first_token_in_both(encoder: SentenceEncoder) -> None:
    tokens = encoder.tokenizer.pad(encoder.tokenize(TEXTS))
    leading = torch.randn(2, 32)
    (plain,) = plain_states(encoder.backbone, tokens, leading=leading)
    (packed,) = trained_states(encoder.backbone, tokens, [3], "packed", leading=leading)
    mask = tokens.attention_mask.bool()
    assert (packed[mask] - plain[mask]).abs().max() < 1e-5
    with pytest.raises(UserError, match="vectors of 5 dimensions cannot replace"):
        plain_states(encoder.backbone, tokens, leading=torch.randn(2, 5))


def test_a_backbone_without_embeddings_module_is_refused(encoder: SentenceEncoder) -> None:
    assert embedding_module(encoder.backbone) is encoder.backbone.embeddings
    del encoder.backbone.embeddings
    with pytest.raises(UserError, match="no module called embeddings"):
        embedding_module(encoder.backbone)


def test_without_a_gpu_or_bf16_transformers_computes_what_the_fast_forward_does_not(encoder: SentenceEncoder) -> None:
    with torch.no_grad():
        assert inference_computation(encoder.backbone, bf16=True) == "transformers"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("pooling", ["cls", "mean", "first_last_0", "max"])
def test_a_gpu_encodes_in_bf16_as_in_float32(tiny_folder: Path, pooling: str) -> None:
    encoder = SentenceEncoder.load(tiny_folder, device="cuda", pooling=pooling)
    with torch.no_grad():
        assert inference_computation(encoder.backbone, bf16=True) in ON_GPU
        assert inference_computation(encoder.backbone, bf16=False) == "transformers"
    assert inference_computation(encoder.backbone, bf16=True) == "transformers", "with gradients"
    texts = [*TEXTS, "dog " * 150, "dog", "The cat sleeps. " * 9]
    exact = encoder.encode(texts, normalize_embeddings=True)
    rounded = encoder.encode(texts, normalize_embeddings=True, precision="bf16")
    cosines = (exact * rounded).sum(axis=1)
    assert cosines.min() > 0.999
    assert not np.array_equal(exact, rounded)
