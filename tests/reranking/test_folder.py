"""Folders that are no cross-encoder, or ask for what is not supported, are refused in one line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from cross_encoders import write_cross_encoder, write_sentence_transformers
from helpers import json_in
from opencse.errors import UserError
from opencse.reranking.cross_encoder import read_cross_encoder


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, cross_encoder: Path) -> Path:
    return write_sentence_transformers(tmp_path_factory.mktemp("saved") / "encoder", cross_encoder)


def edited(folder: Path, copy: Path, file: str, change: Callable[[Any], object]) -> Path:
    shutil.copytree(folder, copy)
    path = copy / file
    content = json_in(path) if path.exists() else {}
    changed = change(content)
    path.write_text(json.dumps(content if changed is None else changed))
    return copy


def test_an_encoder_is_no_cross_encoder(tiny_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is no cross-encoder: config\.json names BertForMaskedLM"):
        read_cross_encoder(tiny_folder)
    with pytest.raises(UserError, match="opencse-mini: is no cross-encoder"):
        read_cross_encoder("opencse-mini")
    with pytest.raises(UserError, match="no such folder"):
        read_cross_encoder(tmp_path / "nowhere")


def test_several_outputs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has 3 outputs \(id2label in config.json\); a cross-encoder that ranks"):
        read_cross_encoder(write_cross_encoder(tmp_path / "nli", outputs=3))


def test_random_weights_are_refused(cross_encoder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    shutil.copytree(cross_encoder, tmp_path / "cut")
    weights = load_file(tmp_path / "cut" / "model.safetensors")
    del weights["classifier.weight"]
    save_file(weights, tmp_path / "cut" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"1 weights of BertForSequenceClassification .* \(first: classifier.weight\)"):
        read_cross_encoder(tmp_path / "cut")


def test_the_activation_is_where_sentence_transformers_looks_for_it(
    cross_encoder: Path, saved: Path, tmp_path: Path
) -> None:
    assert read_cross_encoder(cross_encoder).activation == read_cross_encoder(saved).activation == "sigmoid"
    config = "config_sentence_transformers.json"
    tanh = "torch.nn.modules.activation.Tanh"
    new = edited(saved, tmp_path / "new", config, lambda old: old.update(activation_fn=tanh))
    old = edited(
        cross_encoder,
        tmp_path / "old",
        "config.json",
        lambda one: one.update(sentence_transformers={"activation_fn": tanh}),
    )
    oldest = edited(
        cross_encoder,
        tmp_path / "oldest",
        "config.json",
        lambda one: one.update(sbert_ce_default_activation_function="torch.nn.modules.linear.Identity"),
    )
    assert [read_cross_encoder(folder).activation for folder in (new, old, oldest)] == ["tanh", "tanh", "identity"]
    from sentence_transformers import CrossEncoder

    for folder, kind in ((new, torch.nn.Tanh), (old, torch.nn.Tanh), (oldest, torch.nn.Identity)):
        assert isinstance(CrossEncoder(str(folder), device="cpu").activation_fn, kind)
    other = edited(saved, tmp_path / "other", config, lambda one: one.update(activation_fn="mine.Activation"))
    with pytest.raises(UserError, match=r"the activation 'mine\.Activation' is not supported here; known: torch\.nn"):
        read_cross_encoder(other)


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        (
            "modules.json",
            lambda modules: [*modules, {"type": "a.LogitScore", "path": "1"}],
            "lists Transformer, LogitS",
        ),
        ("modules.json", lambda _: ["x", {"type": "a.Transformer", "path": "/"}], "the name of a folder inside"),
        ("sentence_bert_config.json", lambda one: one.update(do_lower_case=True), "do_lower_case is not supported"),
        ("sentence_bert_config.json", lambda one: one.update(max_seq_length=-1), "max_seq_length is -1"),
        ("tokenizer_config.json", lambda one: one.update(chat_template="{{ messages }}"), "into a chat template"),
    ],
)
def test_what_is_not_supported_is_named(
    saved: Path, tmp_path: Path, file: str, change: Callable[[Any], object], message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read_cross_encoder(edited(saved, tmp_path / "edited", file, change))
    assert "\n" not in str(caught.value)


def test_the_longest_pair_is_the_smallest_of_all_limits(saved: Path, cross_encoder: Path, tmp_path: Path) -> None:
    assert read_cross_encoder(cross_encoder).max_length == read_cross_encoder(saved).max_length == 64
    short = edited(saved, tmp_path / "short", "sentence_bert_config.json", lambda one: one.update(max_seq_length=30))
    assert read_cross_encoder(short).max_length == 30
