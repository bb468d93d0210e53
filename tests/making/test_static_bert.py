"""The BERT that an encoder of counted words is: what it computes, trains, saves and loads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from counted_words import SMALL, D, cosines, table
from opencse.encoder.encoder import SentenceEncoder
from opencse.making.static import Static, StaticSettings, build
from opencse.text.corpus import Corpus
from opencse.text.readers import Source
from opencse.text.tokenizer import Tokenizer


def test_the_bert_computes_the_closed_form(source: Source, tokenizer: Tokenizer, corpus: Corpus) -> None:
    texts = [row[0] for row in source.read().rows][:50]
    for layers in (0, 1, 2):
        encoder = build(corpus, tokenizer, SMALL.model_copy(update={"layers": layers})).encoder
        e = table(encoder)
        spread = e.var(axis=1, keepdims=True)
        hidden = (e - e.mean(axis=1, keepdims=True)) / np.sqrt(1 + (2 * layers + 1) * spread / 0.5)
        expected = np.array([hidden[ids].mean(axis=0) for ids in encoder.tokenize(texts)])
        assert np.abs(expected).max() > 0.01
        np.testing.assert_allclose(encoder.encode(texts), expected, atol=1e-6)


def test_layers_change_nothing_at_the_start(source: Source, tokenizer: Tokenizer, corpus: Corpus) -> None:
    texts = [row[0] for row in source.read().rows][:50]
    encoders = [build(corpus, tokenizer, SMALL.model_copy(update={"layers": n})).encoder for n in (0, 1, 2)]
    assert [encoder.depth for encoder in encoders] == [0, 1, 2]
    none, one, two = (encoder.encode(texts).astype(np.float64) for encoder in encoders)
    assert cosines(none, one).min() > 0.995
    assert cosines(none, two).min() > 0.99
    assert [len(list(encoder.backbone.parameters())) for encoder in encoders] == [5, 21, 37]


def test_a_layer_can_be_trained(made: Static, tokenizer: Tokenizer) -> None:
    state = {name: tensor.clone() for name, tensor in made.encoder.state_dict().items()}
    ids = made.encoder.tokenize(["the bread rises in the sun"])
    vector = made.encoder(tokenizer.pad(ids)).sentence
    (vector**2).sum().backward()
    moved = {name for name, p in made.encoder.named_parameters() if p.grad is not None and p.grad.abs().max() > 0}
    made.encoder.zero_grad(set_to_none=True)
    assert {n for n in moved if n.endswith("output.dense.weight")} == {
        "backbone.encoder.layer.0.attention.output.dense.weight",
        "backbone.encoder.layer.0.output.dense.weight",
    }
    drawn = [t for n, t in state.items() if n.endswith(("query.weight", "intermediate.dense.weight"))]
    assert len(drawn) == 2
    assert all(0.01 < float(t.std()) < 0.03 for t in drawn), "BERT's initialisation"


def test_it_loads_with_the_same_vectors(made: Static, source: Source, tmp_path: Path) -> None:
    texts = [*(row[0] for row in source.read().rows[:20]), "", "one two three " * 60]
    expected = made.encoder.encode(texts)
    made.encoder.save(tmp_path / "m", card="card")
    loaded = SentenceEncoder.load(tmp_path / "m", device="cpu")
    assert loaded.max_length == SMALL.positions
    np.testing.assert_array_equal(loaded.encode(texts), expected)

    from transformers import AutoModel, AutoTokenizer

    plain, cut = AutoModel.from_pretrained(tmp_path / "m"), AutoTokenizer.from_pretrained(tmp_path / "m")
    batch = cut(texts, padding=True, truncation=True, return_tensors="pt")
    assert batch["input_ids"].shape[1] == SMALL.positions, "the tokenizer knows of the positions"
    with torch.inference_mode():
        states = plain.eval()(**batch).last_hidden_state
    mask = batch["attention_mask"][:, :, None]
    np.testing.assert_allclose((states * mask).sum(1) / mask.sum(1), expected, atol=1e-6)


def test_sentence_transformers_gives_the_same_vectors(made: Static, source: Source, tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    texts = [*(row[0] for row in source.read().rows[:20]), "", "one two three " * 60]
    made.encoder.save(tmp_path / "m", card="card")
    theirs = library.SentenceTransformer(str(tmp_path / "m"), device="cpu").encode(texts)
    np.testing.assert_allclose(theirs, made.encoder.encode(texts), atol=1e-6)


def test_the_tokenizer_given_is_left_alone(made: Static, tokenizer: Tokenizer) -> None:
    assert tokenizer.hf.model_max_length == 64
    assert made.encoder.tokenizer.hf.model_max_length == SMALL.positions


def test_the_bert_has_the_requested_sizes(corpus: Corpus, tokenizer: Tokenizer) -> None:
    settings = SMALL.model_copy(update={"layers": 2, "heads": 4, "dropout": 0.2})
    config = build(corpus, tokenizer, settings).encoder.backbone.config
    assert (config.num_hidden_layers, config.num_attention_heads, config.intermediate_size) == (2, 4, 24)
    assert (config.hidden_dropout_prob, config.attention_probs_dropout_prob) == (0.2, 0.2)
    assert (config.hidden_size, config.max_position_embeddings, config.layer_norm_eps) == (D, 32, 0.5)


def test_heads_follow_the_dimension() -> None:
    assert [StaticSettings(dimension=d).attention_heads for d in (2, 64, 200, 256, 448)] == [1, 1, 2, 4, 7]
    assert StaticSettings(heads=2).attention_heads == 2
