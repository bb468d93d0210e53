"""A BERT in numpy: the vectors of `SentenceEncoder` for every folder that it opens, and its fingerprint."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import opencse
from layout_folders import write
from layouts import READ
from opencse.encoder.bert import BertEncoder, KnownModel, open_bert
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import hash_files
from opencse.encoder.text_encoder import TextEncoder
from opencse.errors import UserError
from opencse.model_folder.layout import TOKEN_WEIGHTS_TENSOR

TEXTS = ["A dog barks.", "It rains.", "", "word " * 300, "\U0001f642 日本", "w1 w2"]
OPENED = {"E5", "BGE", "GTE", "arctic-embed", "all-MiniLM", "default prompt", "0_Transformer", "WordWeights"}


@pytest.mark.parametrize("name", READ)
def test_vectors_are_those_of_the_network(name: str, tmp_path: Path) -> None:
    folder = write(READ[name], tmp_path / "model")
    light = open_bert(folder)
    assert (light is not None) == (name in OPENED)
    if light is None:
        return
    full = SentenceEncoder.load(folder, device="cpu")
    assert isinstance(light, TextEncoder)
    np.testing.assert_allclose(light.encode(TEXTS), full.encode(TEXTS), rtol=0, atol=1e-5)
    np.testing.assert_allclose(light.encode_query(TEXTS), full.encode_query(TEXTS), rtol=0, atol=1e-5)
    np.testing.assert_allclose(light.encode_document(TEXTS), full.encode_document(TEXTS), rtol=0, atol=1e-5)
    assert np.abs(light.encode(TEXTS)[0] - light.encode(TEXTS)[1]).max() > 0.01
    assert [ids.tolist() for ids in light.tokenize(TEXTS)] == [ids.tolist() for ids in full.tokenize(TEXTS)]
    assert (light.dimension, light.max_length, light.id_count) == (full.dimension, full.max_length, full.id_count)
    assert (light.prompts, light.similarity_fn_name) == (full.prompts, full.similarity_fn_name)
    assert light.weight_bytes > 0


@pytest.mark.parametrize("pooling", ["mean", "cls", "first_last_0", "first_last_1", "top2"])
def test_another_pooling(pooling: str, tmp_path: Path) -> None:
    folder = write(READ["all-MiniLM"], tmp_path / "model")
    light, full = open_bert(folder, pooling=pooling), SentenceEncoder.load(folder, pooling=pooling, device="cpu")
    assert light is not None
    seen: list[tuple[int, int]] = []
    made = light.encode(TEXTS, batch_size=2, progress=lambda *done: seen.append(done))
    np.testing.assert_allclose(made, full.encode(TEXTS), rtol=0, atol=1e-5)
    assert seen == [(2, 6), (4, 6), (6, 6)]
    assert light.fingerprint() == full.fingerprint()
    assert open_bert(folder, pooling="max") is None


@pytest.mark.parametrize("pooling", [None, "mean", "cls", "top2"])
def test_tokens_count_by_their_weights_in_a_mean(pooling: str | None, tmp_path: Path) -> None:
    """As in the folder of every adapted network; a text whose tokens all weigh nothing has the zero vector."""
    folder = write(READ["WordWeights"], tmp_path / "model")
    full, file = SentenceEncoder.load(folder, pooling=pooling, device="cpu"), folder / "1_WordWeights/model.safetensors"
    weights = load_file(file)
    for text in full.tokenize(["It rains."]):
        weights[TOKEN_WEIGHTS_TENSOR][text] = 0
    save_file(weights, file)
    light, full = open_bert(folder, pooling=pooling), SentenceEncoder.load(folder, pooling=pooling, device="cpu")
    assert light is not None
    np.testing.assert_allclose(light.encode(TEXTS), full.encode(TEXTS), rtol=0, atol=1e-5)
    assert (np.abs(light.encode("It rains.")).max() == 0) == (pooling != "cls")
    assert light.fingerprint() == full.fingerprint()
    unweighted = open_bert(write(READ["all-MiniLM"], tmp_path / "other"), pooling="mean")
    assert unweighted is not None
    assert unweighted.token_weights is None


def test_an_index_is_queried_without_loading_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(READ["all-MiniLM"], tmp_path / "model")
    opencse.build_index(tmp_path / "index", folder, ["w1 w2 w3.", "w4 w5."], device="cpu")
    expected = opencse.query_index(tmp_path / "index", ["w1"], model=SentenceEncoder.load(folder, device="cpu"))[0]

    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError("the network was loaded")

    with monkeypatch.context() as patch:
        patch.setattr(SentenceEncoder, "__init__", refuse)
        hits = opencse.query_index(tmp_path / "index", ["w1"])[0]
        with pytest.raises(AssertionError, match="the network was loaded"):
            opencse.query_index(tmp_path / "index", ["w1"] * 201)
    assert [hit.id for hit in hits] == [hit.id for hit in expected]
    np.testing.assert_allclose([hit.score for hit in hits], [hit.score for hit in expected], atol=1e-5)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"layer_norm_eps": 0.1}), encoding="utf-8")
    with pytest.raises(UserError, match="this encoder is another"):
        opencse.query_index(tmp_path / "index", ["w1"])


def test_a_known_fingerprint_is_that_of_the_same_files_alone(tmp_path: Path) -> None:
    folder = write(READ["all-MiniLM"], tmp_path / "model")
    light = open_bert(folder, known=KnownModel(hash_files(folder), "known"))
    assert isinstance(light, BertEncoder)
    assert light.fingerprint() == "known"
    copy = shutil.copytree(folder, tmp_path / "copy")
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)
    other = open_bert(copy, known=KnownModel(hash_files(folder), "known"))
    assert other is not None
    assert other.fingerprint() == SentenceEncoder.load(copy, device="cpu").fingerprint() != "known"
    assert "torch" in sys.modules
