"""Ditto's weights are the diagonal of one head's attention, against naive loops over the queries and keys."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from opencse import SentenceEncoder, UserError
from opencse.evaluation.models.ditto import Ditto, parse_ditto
from opencse.evaluation.models.opening import open_model, require_model
from opencse.modules.pooling import Pooling

TEXTS = ["a dog runs", "the cat sleeps on the warm mat", "rain"]


def naive(encoder: SentenceEncoder, text: str, layer: int, head: int) -> list[float]:
    """One text by itself: its attention from the projections of the layer below, in loops."""
    ids = torch.from_numpy(np.asarray(encoder.tokenize([text])[0])).long()[None]
    backbone: Any = encoder.backbone
    backbone.eval()
    with torch.no_grad():
        states = backbone(input_ids=ids, output_hidden_states=True).hidden_states
        attention = backbone.encoder.layer[layer - 1].attention.self
        size = attention.attention_head_size
        below = states[layer - 1][0]
        queries, keys = (
            getattr(attention, name)(below)[:, (head - 1) * size : head * size].double() for name in ("query", "key")
        )
    total, sums = 0.0, np.zeros(states[0].shape[-1])
    for t in range(len(below)):
        logits = [float(queries[t] @ key) / math.sqrt(size) for key in keys]
        weight = math.exp(logits[t]) / sum(math.exp(logit) for logit in logits)
        total += weight
        sums += weight * (states[0][0, t] + states[-1][0, t]).double().numpy() / 2
    return [float(value) for value in sums / total]


@pytest.mark.parametrize(("layer", "head"), [(1, 1), (1, 2), (2, 1)])
def test_the_vectors_are_those_of_naive_loops(tiny_folder: Path, layer: int, head: int) -> None:
    encoder = SentenceEncoder.load(tiny_folder, pooling="first_last_0", device="cpu")
    vectors = Ditto(encoder, layer, head).encode(TEXTS)
    expected = np.array([naive(encoder, text, layer, head) for text in TEXTS])
    assert vectors == pytest.approx(expected, abs=1e-5)
    assert not np.allclose(vectors, encoder.encode(TEXTS), atol=1e-6), "the weights count"
    assert not np.allclose(vectors, Ditto(encoder, 2, 2).encode(TEXTS), atol=1e-7), "which head is read counts"


def test_a_name_opens_it(tiny_folder: Path) -> None:
    model = open_model(f"ditto-1-2:{tiny_folder}", device="cpu")
    assert model.pooling == "first_last_0, weighted by layer 1, head 2"
    encoder = SentenceEncoder.load(tiny_folder, pooling="first_last_0", device="cpu")
    assert model.encode(TEXTS) == pytest.approx(Ditto(encoder, 1, 2).encode(TEXTS))
    require_model(f"ditto-1-2:{tiny_folder}")
    mean = open_model(f"ditto-1-2:{tiny_folder}", pooling="mean", device="cpu")
    assert mean.encode(TEXTS) == pytest.approx(Ditto(encoder, 1, 2, Pooling.MEAN).encode(TEXTS))


def test_what_is_refused(tiny_folder: Path) -> None:
    with pytest.raises(UserError, match=r"Ditto reads layer 1, head 10, but this model has 3 layers of 2 heads"):
        open_model(f"ditto:{tiny_folder}", device="cpu")
    with pytest.raises(UserError, match="Ditto weights the tokens of a mean, not pooling cls"):
        open_model(f"ditto-1-1:{tiny_folder}", pooling="cls", device="cpu")
    with pytest.raises(UserError, match="not to a layer or to word vectors"):
        open_model(f"ditto-1-1:{tiny_folder}", precision="bf16")
    for name in ("ditto-1:x", "ditto-a-b:x", "ditto:"):
        with pytest.raises(UserError, match="ditto:MODEL or ditto-LAYER-HEAD:MODEL is expected"):
            parse_ditto(name)
