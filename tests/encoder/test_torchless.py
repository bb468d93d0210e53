"""Models of word vectors alone, opened without torch: the same vectors, bit for bit, and the same fingerprint."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import filled
from layout_folders import write
from layouts import READ
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import fingerprint
from opencse.encoder.opening import load, open_bert
from opencse.encoder.static import StaticEncoder
from opencse.encoder.text_encoder import TextEncoder
from opencse.errors import UserError
from opencse.export.distil import DistilSettings, distil
from opencse.model_folder.locate import builtin_folder
from opencse.modules.prompts import Prompts
from opencse.progress import Silent
from opencse.text import sample

TEXTS = [*filled(sample.TRAIN)[:300], "", "a", "word " * 300, "\U0001f642 日本"]


@pytest.fixture(scope="module", params=["built-in", "saved", "unit", "table"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target: Path = tmp_path_factory.mktemp(request.param) / "model"
    if request.param == "built-in":
        return builtin_folder()
    encoder = SentenceEncoder.load("opencse-mini", device="cpu")
    if request.param == "unit":
        encoder.normalize, encoder.max_length = True, 9
        encoder.prompts = Prompts({"query": "question: "})
    if request.param == "table":
        encoder = distil(encoder, DistilSettings(dimension=64), [], Silent()).encoder
    encoder.save(target)
    return target


def test_vectors_and_fingerprint_are_those_of_the_network(folder: Path) -> None:
    light, full = load(folder), SentenceEncoder.load(folder, device="cpu")
    assert isinstance(light, StaticEncoder)
    assert isinstance(light, TextEncoder)
    assert isinstance(full, TextEncoder)
    vectors = light.encode(TEXTS)
    np.testing.assert_array_equal(vectors, full.encode(TEXTS))
    np.testing.assert_array_equal(light.encode_query(TEXTS), full.encode_query(TEXTS))
    np.testing.assert_array_equal(light.encode_document(TEXTS[:3]), full.encode_document(TEXTS[:3]))
    np.testing.assert_allclose(light.encode(TEXTS, batch_size=1), vectors, rtol=0, atol=1e-6)
    assert vectors.any(axis=1).sum() >= len(TEXTS) - 2
    assert light.encode("a").shape == (light.dimension,)
    assert fingerprint(light) == fingerprint(full)
    assert (light.dimension, light.max_length, light.prompts) == (full.dimension, full.max_length, full.prompts)
    with torch.enable_grad():  # the plain forward of the network
        ids = [row for row in full.tokenize(TEXTS) if len(row)]
        plain = np.concatenate([full.embed(full.tokenizer.pad([row])).detach().numpy() for row in ids])
    np.testing.assert_allclose(light.encode_ids(ids), plain, rtol=0, atol=2e-6)


def test_another_pooling_or_device_needs_the_network() -> None:
    assert isinstance(load("opencse-mini", pooling="mean", device="cpu"), StaticEncoder)
    assert isinstance(load("opencse-mini", pooling="cls", device="cpu"), SentenceEncoder)
    with pytest.raises(UserError, match="no such folder"):
        load("./nowhere")


def test_the_arguments_are_those_of_the_network() -> None:
    encoder = StaticEncoder.load()
    assert isinstance(encoder.encode(["a"], convert_to_tensor=True), torch.Tensor)
    assert encoder.encode(["a"], batch_size=2, device="cpu").shape == (1, encoder.dimension)


ODD_TEXTS = ["A dog barks.", "It rains.", "", "word " * 300, "\U0001f642 日本", "w1 w2"]
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
    np.testing.assert_allclose(light.encode(ODD_TEXTS), full.encode(ODD_TEXTS), rtol=0, atol=1e-5)
    np.testing.assert_allclose(light.encode_query(ODD_TEXTS), full.encode_query(ODD_TEXTS), rtol=0, atol=1e-5)
    np.testing.assert_allclose(light.encode_document(ODD_TEXTS), full.encode_document(ODD_TEXTS), rtol=0, atol=1e-5)
    assert np.abs(light.encode(ODD_TEXTS)[0] - light.encode(ODD_TEXTS)[1]).max() > 0.01
    assert [ids.tolist() for ids in light.tokenize(ODD_TEXTS)] == [ids.tolist() for ids in full.tokenize(ODD_TEXTS)]
    assert (light.dimension, light.max_length, light.id_count) == (full.dimension, full.max_length, full.id_count)
    assert (light.prompts, light.similarity_fn_name) == (full.prompts, full.similarity_fn_name)
    assert light.weight_bytes > 0


@pytest.mark.parametrize("pooling", ["cls", "first_last_1"])
def test_another_pooling(pooling: str, tmp_path: Path) -> None:
    folder = write(READ["all-MiniLM"], tmp_path / "model")
    light, full = open_bert(folder, pooling=pooling), SentenceEncoder.load(folder, pooling=pooling, device="cpu")
    assert light is not None
    seen: list[tuple[int, int]] = []
    made = light.encode(ODD_TEXTS, batch_size=2, progress=lambda *done: seen.append(done))
    np.testing.assert_allclose(made, full.encode(ODD_TEXTS), rtol=0, atol=1e-5)
    assert seen == [(2, 6), (4, 6), (6, 6)]
    assert light.fingerprint() == full.fingerprint()
    assert open_bert(folder, pooling="max") is None
