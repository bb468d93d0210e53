"""BERTs that are read without torch, and what is left to the complete reader."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from safetensors.torch import load_file as load_torch
from safetensors.torch import save_file as save_torch

from layout_folders import write
from layouts import READ
from opencse.errors import UserError
from opencse.model_folder.layout import TOKEN_WEIGHTS_TENSOR, map_tensors
from opencse.model_folder.locate import builtin_folder
from opencse.model_folder.without_torch import read_bert, read_static
from opencse.modules.pooling import Pooling


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(READ["all-MiniLM"], tmp_path / "model")


def change(name: str, **entries: Any) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / name
        stated = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        path.write_text(json.dumps(stated | entries), encoding="utf-8")

    return apply


def weights(edit: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        edit(tensors)
        save_file(tensors, folder / "model.safetensors")

    return apply


def test_the_parts(folder: Path) -> None:
    parts = read_bert(folder)
    assert parts is not None
    assert (parts.pooling, parts.normalize, parts.max_length, parts.model.depth) == (Pooling.MEAN, True, 64, 2)
    with_heads = read_bert(folder, pooling="cls")
    assert with_heads is not None
    assert with_heads.pooling is Pooling.CLS


UNUSUAL: dict[str, Callable[[Path], object]] = {
    "another activation": change("config.json", hidden_act="relu"),
    "another network": change("config.json", model_type="roberta"),
    "cross attention": change("config.json", add_cross_attention=True),
    "a layer without weights": change("config.json", num_hidden_layers=3),
    "adapters": change("adapter_config.json", peft_type="LORA"),
    "a template": change("config_sentence_transformers.json", template="One: {text}"),
    "arguments of the network": change("sentence_bert_config.json", config_kwargs={"num_hidden_layers": 1}),
    "another tokenizer": change("tokenizer_config.json", tokenizer_class="RobertaTokenizer"),
    "a missing bias": weights(lambda tensors: tensors.pop("encoder.layer.1.output.dense.bias")),
    "numbers of eight bits": weights(
        lambda tensors: tensors.update({"embeddings.LayerNorm.bias": np.zeros(32, dtype=np.int8)})
    ),
    "damaged weights": lambda folder: (folder / "model.safetensors").write_bytes(b"\x10" * 40),
}


@pytest.mark.parametrize("unusual", UNUSUAL)
def test_anything_unusual_is_left_to_the_complete_reader(unusual: str, folder: Path) -> None:
    assert read_bert(folder) is not None
    UNUSUAL[unusual](folder)
    assert read_bert(folder) is None


def test_weights_of_tokens_are_one_number_for_each_id(tmp_path: Path) -> None:
    folder = write(READ["WordWeights"], tmp_path / "model")
    parts, file = read_bert(folder), folder / "1_WordWeights" / "model.safetensors"
    assert parts is not None
    assert parts.token_weights is not None
    numbers = parts.token_weights.copy()
    assert len(np.unique(numbers)) > 2
    infinite = numbers.copy()
    infinite[-1] = np.inf
    for wrong in (numbers[:10], infinite):
        save_file({TOKEN_WEIGHTS_TENSOR: wrong}, file)
        assert read_bert(folder) is None


TOKEN = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    folder = shutil.copytree(builtin_folder(), tmp_path / "model")
    assert read_static(folder) is not None
    return folder


def change_static(folder: Path, name: str, entries: dict[str, Any]) -> None:
    path = folder / name
    stated = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    path.write_text(json.dumps(stated | entries), encoding="utf-8")


def rename(folder: Path, edit: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    save_file(edit(load_file(folder / "model.safetensors")), folder / "model.safetensors")


UNUSUAL_STATIC: dict[str, Callable[[Path], None]] = {
    "adapters": lambda folder: change_static(folder, "adapter_config.json", {"peft_type": "LORA"}),
    "a token that the tokenizer lacks": lambda folder: change_static(
        folder, "tokenizer_config.json", {"mask_token": "<m>"}
    ),
    "a token that is stripped": lambda folder: change_static(
        folder, "tokenizer_config.json", {"added_tokens_decoder": {"4": {"content": "[MASK]", **TOKEN, "lstrip": True}}}
    ),
    "truncated vectors": lambda folder: change_static(
        folder, "config_sentence_transformers.json", {"truncate_dim": 64}
    ),
    "a mean without the prompt": lambda folder: change_static(
        folder, "1_Pooling/config.json", {"include_prompt": False}
    ),
    "arguments of the tokenizer": lambda folder: change_static(
        folder, "sentence_bert_config.json", {"processor_kwargs": {"truncation_side": "left"}}
    ),
    "tensors of other names": lambda folder: rename(
        folder, lambda tensors: {name.removeprefix("embeddings."): array for name, array in tensors.items()}
    ),
    "no length": lambda folder: change_static(folder, "sentence_bert_config.json", {"max_seq_length": -3}),
}


@pytest.mark.parametrize("unusual", UNUSUAL_STATIC)
def test_what_needs_more_is_left_to_the_complete_reader(unusual: str, copy: Path) -> None:
    UNUSUAL_STATIC[unusual](copy)
    assert read_static(copy) is None


DTYPES = [
    getattr(torch, name) for name in ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8")
]


def test_every_format_is_read_as_the_library_does(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    tensors = {str(dtype): (7 * torch.rand(3, 2)).to(dtype) for dtype in DTYPES}
    tensors |= {"flags": torch.tensor([True, False]), "one": torch.tensor(2.5), "empty": torch.zeros(0, 4)}
    save_torch(tensors, file, metadata={"format": "pt"})
    arrays = map_tensors(file)
    assert arrays.keys() == tensors.keys()
    for name, tensor in load_torch(file).items():
        np.testing.assert_array_equal(arrays[name], tensor.numpy())
        assert arrays[name].dtype == tensor.numpy().dtype


def written(header: object, data: bytes = bytes(16), size: int | None = None) -> bytes:
    text = json.dumps(header).encode()
    return (len(text) if size is None else size).to_bytes(8, "little") + text + data


def one(**changes: object) -> dict[str, object]:
    return {"rows": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]} | changes}


BROKEN = {
    "short": b"\x01\x02",
    "no JSON": (3).to_bytes(8, "little") + b"abc",
    "a header beyond the end": written(one(), size=10_000),
    "a list": written([1, 2]),
    "no offsets": written({"rows": {"dtype": "F32", "shape": [2, 2]}}),
    "beyond the end": written(one(data_offsets=[16, 32])),
    "another size": written(one(shape=[2, 3])),
    "a negative shape": written(one(shape=[-2, -2])),
    "an unknown format": written(one(dtype="F8_E4M3")),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_file_is_refused_by_name(broken: str, tmp_path: Path) -> None:
    (tmp_path / "good").write_bytes(written(one()))
    assert map_tensors(tmp_path / "good")["rows"].shape == (2, 2)
    (tmp_path / "model.safetensors").write_bytes(BROKEN[broken])
    with pytest.raises(UserError, match=r"model\.safetensors: cannot be read \(.+\)"):
        map_tensors(tmp_path / "model.safetensors")
