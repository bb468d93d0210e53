"""Models of word vectors alone, opened without torch: the same vectors, bit for bit, and the same fingerprint."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import filled
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import fingerprint
from opencse.encoder.opening import load
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


def test_the_order_of_many_texts_is_kept() -> None:
    encoder = StaticEncoder.load()
    texts = [" ".join(["word", "rain", "tea"][n % 3 :] * (n % 11 + 1)) for n in range(200)]
    alone = np.stack([encoder.encode(text) for text in texts])
    seen: list[tuple[int, int]] = []
    np.testing.assert_allclose(
        encoder.encode(texts, progress=lambda *done: seen.append(done)), alone, rtol=0, atol=1e-6
    )
    assert seen[-1] == (200, 200)
    assert encoder.encode([]).shape == (0, encoder.dimension)


def changed(name: str, change: Callable[[dict[str, object]], object]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / name
        config = json.loads(path.read_text(encoding="utf-8"))
        change(config)
        path.write_text(json.dumps(config), encoding="utf-8")

    return apply


def without(name: str, content: bytes | None = None) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        (folder / name).unlink()
        if content is not None:
            (folder / name).write_bytes(content)

    return apply


UNUSUAL = {
    "a layer": changed("config.json", lambda config: config.update(num_hidden_layers=1)),
    "sizes that do not fit": changed("config.json", lambda config: config.update(hidden_size=12)),
    "lower-casing": changed("sentence_bert_config.json", lambda config: config.update(do_lower_case=True)),
    "another normaliser": changed("tokenizer_config.json", lambda config: config.update(do_lower_case=False)),
    "its own code": changed("tokenizer_config.json", lambda config: config.update(auto_map={"AutoTokenizer": "x.Y"})),
    "truncated weights": without("model.safetensors", b"\x10" * 40),
    "no tokenizer": without("tokenizer.json"),
}


@pytest.mark.parametrize("unusual", UNUSUAL)
def test_anything_unusual_is_left_to_the_complete_reader(unusual: str, tmp_path: Path) -> None:
    folder = shutil.copytree(builtin_folder(), tmp_path / "model")
    UNUSUAL[unusual](folder)
    with pytest.raises(UserError, match="is not a model of word vectors alone"):
        StaticEncoder.load(folder)


def test_another_pooling_or_device_needs_the_network() -> None:
    assert isinstance(load("opencse-mini", pooling="mean", device="cpu"), StaticEncoder)
    assert isinstance(load("opencse-mini", pooling="cls", device="cpu"), SentenceEncoder)
    with pytest.raises(UserError, match="no such folder"):
        load("./nowhere")


def test_an_argument_that_only_the_network_has_is_refused() -> None:
    encoder = StaticEncoder.load()
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        encoder.encode(["a"], nonsense=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"torch\.from_numpy makes a tensor of one, and SentenceEncoder\.load opens"):
        encoder.encode(["a"], convert_to_tensor=True)  # type: ignore[call-arg]
    assert encoder.encode(["a"], batch_size=2, device="cpu").shape == (1, encoder.dimension)


def test_another_device_and_two_ways_of_progress_are_refused() -> None:
    encoder = StaticEncoder.load()
    with pytest.raises(UserError, match="device cuda:0: a model of word vectors computes on the CPU"):
        encoder.encode(["a"], device="cuda:0")
    with pytest.raises(UserError, match="show_progress_bar or progress, not both"):
        encoder.encode(["a"], show_progress_bar=True, progress=lambda done, total: None)
    with pytest.raises(ValueError, match="pools every token"):
        encoder.encode_ids(encoder.tokenize(["a kettle"]), 1)


@pytest.mark.parametrize("method", ["encode", "encode_query", "encode_document"])
def test_both_encoders_take_the_same_arguments(method: str) -> None:
    texts, light, full = ["A kettle.", "Rain"], StaticEncoder.load(), SentenceEncoder.load(device="cpu")
    for options in ({"normalize_embeddings": True}, {"prompt": "tea: "}, {"batch_size": 1}, {"precision": "bf16"}):
        made, expected = getattr(light, method)(texts, **options), getattr(full, method)(texts, **options)
        np.testing.assert_array_equal(made, expected)
        assert getattr(light, method)(texts[0], **options).shape == (light.dimension,)
    assert light.id_count == full.id_count == len(light.words.words)
    assert light.unpooled("tea: ") == full.unpooled("tea: ") == 0
    assert light.tokenizer.reads_from_left
    assert full.tokenizer.reads_from_left


def test_damaged_vectors_are_refused(tmp_path: Path) -> None:
    encoder = StaticEncoder.load()
    words = encoder.words.words
    words[:] = np.nan  # a copy in memory: the file stays as it is
    with pytest.raises(UserError, match="holds NaN or infinity"):
        encoder.encode(["a"])
    assert np.isfinite(StaticEncoder.load().encode(["a"])).all()
