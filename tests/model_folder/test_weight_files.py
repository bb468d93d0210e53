from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.weight_files import weight_files

TEXTS = ["A dog barks.", "It rains."]


@pytest.fixture
def copy(tiny_folder: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny_folder, tmp_path / "model")


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def refused(folder: Path) -> str:
    begun = time.process_time()
    with pytest.raises(UserError) as caught:
        SentenceEncoder.load(folder, device="cpu")
    assert "\n" not in str(caught.value)
    assert time.process_time() - begun < 10
    return str(caught.value)


def shard(folder: Path, name: str, *, binary: bool = False) -> Path:
    """Puts the weights into the file ``name``, which an index in ``folder`` names."""
    state = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    file = folder / name
    if binary:
        torch.save(state, file)
    else:
        save_file(state, file, metadata={"format": "pt"})
    index = folder / ("pytorch_model.bin.index.json" if binary else "model.safetensors.index.json")
    index.write_text(json.dumps({"metadata": {}, "weight_map": dict.fromkeys(state, name)}))
    return index


@pytest.mark.parametrize("binary", [False, True])
def test_weights_outside_the_folder_are_refused(copy: Path, binary: bool) -> None:
    (copy.parent / "other").mkdir()
    outside = [
        "../other/model.safetensors",
        str(copy.parent / "other/model.safetensors"),
        "a/../../b",
        "..\\b",
        "C:\\b",
    ]
    index = shard(copy, "weights-1", binary=binary)
    before = json.loads(index.read_text())["weight_map"]
    for name in [*outside, "", 3, None, "a\x00b"]:
        index.write_text(json.dumps({"weight_map": {**before, "cls.predictions.bias": name}}))
        message = refused(copy)
        assert message.startswith(f"{index}: weight_map of cls.predictions.bias is {name!r}")
        assert f"the name of a file inside {copy} was expected" in message
    index.write_text(json.dumps({"weight_map": ["a"]}))
    assert f"{index}: weight_map is no JSON object" in refused(copy)


@pytest.mark.parametrize("name", ["../other/model.safetensors", "/model.safetensors", 4])
def test_weights_that_the_configuration_names_outside(copy: Path, name: object) -> None:
    change(copy / "config.json", transformers_weights=name)
    assert f"{copy / 'config.json'}: transformers_weights is {name!r}" in refused(copy)


def test_links_out_of_the_folder_work(copy: Path, tmp_path: Path) -> None:
    """The Hub's cache is made of them."""
    expected = SentenceEncoder.load(copy, device="cpu").encode(TEXTS)
    shard(copy, "model-00001-of-00001.safetensors")
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    for number, file in enumerate(sorted(path for path in copy.iterdir() if path.is_file())):
        file.rename(blobs / str(number))
        file.symlink_to(Path("..") / "blobs" / str(number))
    assert np.array_equal(SentenceEncoder.load(copy, device="cpu").encode(TEXTS), expected)


def test_the_order_is_that_of_transformers(copy: Path) -> None:
    assert weight_files(copy) == (copy / "model.safetensors",)
    (copy / "pytorch_model.bin").touch()
    assert weight_files(copy) == (copy / "model.safetensors",)
    (copy / "model.safetensors").unlink()
    assert weight_files(copy) == (copy / "pytorch_model.bin",)
    (copy / "pytorch_model.bin").unlink()
    assert weight_files(copy) == ()


@pytest.mark.parametrize("value", [10**7, 10**18])
@pytest.mark.parametrize(
    "key", ["num_hidden_layers", "hidden_size", "vocab_size", "intermediate_size", "max_position_embeddings"]
)
@pytest.mark.parametrize("binary", [False, True])
def test_a_size_beyond_the_weights(copy: Path, key: str, value: int, binary: bool) -> None:
    if binary:
        torch.save(load_file(copy / "model.safetensors"), copy / "pytorch_model.bin")
        (copy / "model.safetensors").unlink()
    change(copy / "config.json", **{key: value})
    message = refused(copy)
    assert str(copy) in message
    if key == "num_hidden_layers":
        assert f"num_hidden_layers is {value:,}, but the weight files hold" in message


@pytest.mark.parametrize("key", ["type_vocab_size", "num_attention_heads", "num_labels", "pad_token_id"])
def test_other_huge_numbers_do_not_hang(copy: Path, key: str) -> None:
    change(copy / "config.json", **{key: 10**12})
    if key == "num_labels":
        change(copy / "config.json", id2label={"0": "a"}, num_labels=10**4)
        assert SentenceEncoder.load(copy, device="cpu").depth == 3
    else:
        assert str(copy) in refused(copy)


def test_a_size_a_little_beyond_the_weights_names_the_weight(copy: Path) -> None:
    change(copy / "config.json", vocab_size=2_000)
    assert "embeddings.word_embeddings.weight" in refused(copy)


@pytest.mark.parametrize("groups", [1, 10**9])
def test_layers_that_share_their_weights(copy: Path, groups: int) -> None:
    """ALBERT has fewer tensors than layers times anything."""
    from transformers import AlbertConfig, AlbertModel

    rows = json.loads((copy / "config.json").read_text())["vocab_size"]
    sizes: dict[str, Any] = {"hidden_size": 16, "embedding_size": 8, "num_attention_heads": 2, "intermediate_size": 16}
    AlbertModel(AlbertConfig(vocab_size=rows, num_hidden_layers=40, **sizes)).save_pretrained(copy)
    change(copy / "config.json", num_hidden_groups=groups)
    if groups == 1:
        assert SentenceEncoder.load(copy, device="cpu").depth == 40
    else:
        assert "num_hidden_groups is 1,000,000,000, but the weight files hold" in refused(copy)
