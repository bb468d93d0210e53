"""Folders that are read without torch: only where the complete reader makes the same ids and vectors of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file, save_file

from opencse.errors import UserError
from opencse.model_folder import plain_tokenizer
from opencse.model_folder.locate import builtin_folder
from opencse.model_folder.static_folder import read_static

TOKEN = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    folder = shutil.copytree(builtin_folder(), tmp_path / "model")
    assert read_static(folder) is not None
    return folder


def change(folder: Path, name: str, entries: dict[str, Any]) -> None:
    path = folder / name
    stated = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    path.write_text(json.dumps(stated | entries), encoding="utf-8")


def rename(folder: Path, edit: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    save_file(edit(load_file(folder / "model.safetensors")), folder / "model.safetensors")


def test_special_tokens_may_be_written_as_objects(copy: Path) -> None:
    change(copy, "tokenizer_config.json", {"mask_token": {"__type": "AddedToken", "content": "[MASK]", **TOKEN}})
    change(copy, "tokenizer_config.json", {"unk_token": {"content": "[UNK]", **TOKEN}})
    parts, plain = read_static(copy), read_static("opencse-mini")
    assert parts is not None
    assert plain is not None
    assert parts.common.tokenizer.description() == plain.common.tokenizer.description()


def test_a_network_with_layers_has_its_tokenizer_left_alone(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    monkeypatch.setattr(plain_tokenizer, "read_backend", lambda folder: read.append(folder))
    change(copy, "config.json", {"num_hidden_layers": 2})
    assert read_static(copy) is None
    assert read == []


UNUSUAL: dict[str, Callable[[Path], None]] = {
    "adapters": lambda folder: change(folder, "adapter_config.json", {"peft_type": "LORA"}),
    "a token that the tokenizer lacks": lambda folder: change(folder, "tokenizer_config.json", {"mask_token": "<m>"}),
    "a word as a special token": lambda folder: change(folder, "tokenizer_config.json", {"eos_token": "the"}),
    "another begin": lambda folder: change(folder, "tokenizer_config.json", {"add_bos_token": False}),
    "a token that is stripped": lambda folder: change(
        folder, "tokenizer_config.json", {"added_tokens_decoder": {"4": {"content": "[MASK]", **TOKEN, "lstrip": True}}}
    ),
    "tokens of no form": lambda folder: change(folder, "tokenizer_config.json", {"added_tokens_decoder": [1]}),
    "another list of special tokens": lambda folder: change(
        folder, "special_tokens_map.json", {"additional_special_tokens": ["<x>"]}
    ),
    "truncated vectors": lambda folder: change(folder, "config_sentence_transformers.json", {"truncate_dim": 64}),
    "another pooling": lambda folder: change(
        folder, "1_Pooling/config.json", {"pooling_mode": "cls", "pooling_mode_mean_tokens": False}
    ),
    "a mean without the prompt": lambda folder: change(folder, "1_Pooling/config.json", {"include_prompt": False}),
    "relative positions": lambda folder: change(folder, "config.json", {"position_embedding_type": "relative_key"}),
    "cross attention": lambda folder: change(folder, "config.json", {"add_cross_attention": True}),
    "arguments of the tokenizer": lambda folder: change(
        folder, "sentence_bert_config.json", {"processor_kwargs": {"truncation_side": "left"}}
    ),
    "tensors with two names": lambda folder: rename(
        folder, lambda tensors: {**tensors, **{f"bert.{name}": array + 1 for name, array in tensors.items()}}
    ),
    "tensors of other names": lambda folder: rename(
        folder, lambda tensors: {name.removeprefix("embeddings."): array for name, array in tensors.items()}
    ),
    "no length": lambda folder: change(folder, "sentence_bert_config.json", {"max_seq_length": -3}),
}


@pytest.mark.parametrize("unusual", UNUSUAL)
def test_what_needs_more_is_left_to_the_complete_reader(unusual: str, copy: Path) -> None:
    UNUSUAL[unusual](copy)
    assert read_static(copy) is None


def test_settings_are_read(copy: Path) -> None:
    change(copy, "sentence_bert_config.json", {"max_seq_length": 7})
    stated = {
        "prompts": {"query": "q: "},
        "similarity_fn_name": "dot",
        "hybrid_search": {"weight": 0.25, "source": "x"},
    }
    change(copy, "config_sentence_transformers.json", stated)
    parts = read_static(copy, pooling="mean")
    assert parts is not None
    common = parts.common
    assert (common.max_length, common.prompts.texts["query"], common.similarity_fn_name) == (7, "q: ", "dot")
    assert common.hybrid_weight is not None
    assert common.hybrid_weight.value == 0.25
    assert read_static(copy, pooling="cls") is None
    with pytest.raises(UserError, match="no such folder"):
        read_static(copy / "missing")
