"""SetSim, TokSim, vectors and tokens by layer against transformers' own states, one sentence at a time."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from opencse.analysis.layers import layer_similarities, token_similarities
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.layers import vectors_by_layer
from opencse.errors import UserError
from opencse.modules.pooling import Pooling

Floats = NDArray[np.float64]
TEXTS = ["The spokes were loose.", "A dog.", "Clean the rims with a rag, and do it every second week of the year.", "x"]


@pytest.fixture
def encoder(encoder: SentenceEncoder) -> SentenceEncoder:
    """The tiny model with larger weights; with small random ones all layers give nearly the same vectors."""
    with torch.no_grad():
        for name, weight in encoder.backbone.named_parameters():
            if "encoder" in name and weight.ndim == 2:
                weight.mul_(12)
    return encoder


def states_of(encoder: SentenceEncoder, text: str) -> list[Floats]:
    """(m, hidden) of each layer, of one sentence without padding, by transformers alone."""
    encoder.eval()
    ids = torch.tensor([encoder.tokenizer.hf(text)["input_ids"]])
    with torch.no_grad():
        found = encoder.backbone(ids, output_hidden_states=True).hidden_states
    return [state[0].double().numpy() for state in found]


def cosine(u: Floats, v: Floats) -> float:
    return float(sum(u * v) / np.sqrt(sum(u * u) * sum(v * v)))


def tok_sim(tokens: Floats) -> float:
    m = len(tokens)
    return sum(cosine(tokens[u], tokens[v]) for u in range(m) for v in range(m) if u != v) / (m * (m - 1))


@pytest.mark.slow
@pytest.mark.parametrize(("pooling", "budget"), [("mean", 1), ("cls", 24), ("top2", 2048)])
def test_similarities_are_the_papers_formulas(encoder: SentenceEncoder, pooling: str, budget: int) -> None:
    encoder.pooling = Pooling(pooling)
    by_text = [states_of(encoder, text) for text in TEXTS]
    sentence = [[s[0] if pooling == "cls" else s.mean(axis=0) for s in states] for states in by_text]
    encoder.train()
    found = layer_similarities(encoder, TEXTS, token_budget=budget)
    assert encoder.training, "the mode is put back"
    assert (found.depth, found.n, found.tok_n, found.pooling) == (3, 4, 4, pooling)
    assert found.set_sim == pytest.approx(
        [np.mean([cosine(v[layer], v[layer + 1]) for v in sentence]) for layer in range(3)], abs=1e-6
    )
    assert found.tok_sim == pytest.approx(
        [np.mean([tok_sim(states[layer]) for states in by_text]) for layer in range(4)], abs=1e-6
    )
    assert min(found.set_sim) < 0.999, "the layers do something"


def test_layer_vectors_are_pooled_states(encoder: SentenceEncoder) -> None:
    by_text = [states_of(encoder, text) for text in TEXTS]
    for layer in range(4):
        expected = np.stack([states[layer].mean(axis=0) for states in by_text])
        found = vectors_by_layer(encoder, TEXTS, [layer], token_budget=20)[layer]
        assert found == pytest.approx(expected, abs=1e-5)
        assert found.shape == (4, 32)
        assert found.dtype == np.float32
    assert vectors_by_layer(encoder, TEXTS, [3])[3] == pytest.approx(encoder.encode(TEXTS), abs=1e-6)
    encoder.dense = nn.Sequential(nn.Linear(32, 5))
    assert vectors_by_layer(encoder, TEXTS, [3])[3].shape == (4, 32), "dense layers stay out"
    assert vectors_by_layer(encoder, [], [1])[1].shape == (0, 32)


def test_tokens_of_a_sentence(encoder: SentenceEncoder) -> None:
    states = states_of(encoder, TEXTS[0])
    for layer in (None, 0):
        found = token_similarities(encoder, TEXTS[0], layer)
        tokens = states[3 if layer is None else layer]
        assert found.layer == (3 if layer is None else layer)
        assert found.tokens == encoder.tokenizer.hf.convert_ids_to_tokens(encoder.tokenizer.hf(TEXTS[0])["input_ids"])
        expected = np.array([[cosine(u, v) for v in tokens] for u in tokens])
        assert np.array(found.cosines) == pytest.approx(expected, abs=1e-5)
        assert (np.diagonal(found.cosines) == 1).all()
        assert found.tok_sim == pytest.approx(tok_sim(tokens), abs=1e-5)
    assert found.tokens[0] == "[CLS]"
    assert found.tokens[-1] == "[SEP]"


def test_an_encoder_without_layers_is_refused() -> None:
    mini = SentenceEncoder.load(device="cpu")
    assert mini.depth == 0
    told = "^this encoder has no layers, only embeddings; choose one with at least 1 layer$"
    with pytest.raises(UserError, match=told):
        layer_similarities(mini, ["a cat"])
