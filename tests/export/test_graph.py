from __future__ import annotations

import numpy as np
import pytest
import torch

from opencse import SentenceEncoder
from opencse.export.graph import SentenceGraph, exported_normalized, random_tokens
from opencse.modules.similarity import Similarity

TEXTS = ["a text", "another, longer text of the same kind", ""]


@pytest.mark.parametrize("similarity", [Similarity.COSINE, Similarity.DOT])
def test_the_graph_gives_the_vectors_of_the_encoder(encoder: SentenceEncoder, similarity: Similarity) -> None:
    encoder.similarity_fn_name = similarity
    encoder.normalize = False
    assert exported_normalized(encoder) == (similarity is Similarity.COSINE)
    tokens = encoder.tokenizer.pad(encoder.tokenize(TEXTS))
    with torch.inference_mode():
        vectors = SentenceGraph(encoder).eval()(tokens.input_ids, tokens.attention_mask).numpy()
    expected = encoder.encode(TEXTS, normalize_embeddings=exported_normalized(encoder))
    assert np.abs(vectors - expected).max() < 1e-5
    assert np.abs(expected[0] - expected[1]).max() > 1e-3


def test_a_text_without_tokens_has_the_zero_vector(encoder: SentenceEncoder) -> None:
    ids, mask = random_tokens(encoder, 2, 3)
    mask[1] = 0
    with torch.inference_mode():
        vectors = SentenceGraph(encoder).eval()(ids, mask)
    assert vectors[0].abs().max() > 0
    assert vectors[1].abs().max() == 0


def test_random_tokens_have_any_length_and_no_padding_inside(encoder: SentenceEncoder) -> None:
    ids, mask = random_tokens(encoder, 50, 9)
    assert ids.shape == mask.shape == (50, 9)
    assert mask[0].all()
    assert len(set(mask.sum(dim=1).tolist())) > 3
    assert ((ids == encoder.tokenizer.pad_id) == (mask == 0)).all()
    again, _ = random_tokens(encoder, 50, 9)
    assert torch.equal(ids, again)
