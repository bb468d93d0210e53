"""BERTs that are read without torch, and what is left to the complete reader."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from helpers import json_in
from layout_folders import write
from layouts import READ
from opencse.model_folder.layout import TOKEN_WEIGHTS_TENSOR
from opencse.model_folder.locate import builtin_folder
from opencse.model_folder.without_torch import read_bert, read_static
from opencse.modules.pooling import Pooling


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(READ["all-MiniLM"], tmp_path / "model")


def change(name: str, **entries: Any) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / name
        stated = json_in(path) if path.is_file() else {}
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


UNUSUAL_STATIC: dict[str, Callable[[Path], object]] = {
    "a token that the tokenizer lacks": change("tokenizer_config.json", **{"mask_token": "<m>"}),
    "a token that is stripped": change(
        "tokenizer_config.json", **{"added_tokens_decoder": {"4": {"content": "[MASK]", **TOKEN, "lstrip": True}}}
    ),
    "a mean without the prompt": change("1_Pooling/config.json", **{"include_prompt": False}),
    "tensors of other names": weights(lambda tensors: tensors.update(rows=tensors.pop(min(tensors)))),
}


@pytest.mark.parametrize("unusual", UNUSUAL_STATIC)
def test_what_needs_more_is_left_to_the_complete_reader(unusual: str, copy: Path) -> None:
    UNUSUAL_STATIC[unusual](copy)
    assert read_static(copy) is None
