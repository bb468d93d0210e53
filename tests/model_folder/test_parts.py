"""Adapters of a folder; their training is tested in tests/training/test_lora.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.adapters import (
    CONFIG,
    LoraSettings,
    add_adapters,
    read_adapters,
    write_adapters,
)
from opencse.model_folder.listing import list_modules
from opencse.model_folder.masked_lm import load_masked_lm_head
from opencse.model_folder.module_folders import (
    read_layer,
    read_token_weights,
    require_chain,
)
from opencse.modules.dense import Dense
from opencse.modules.token_weights import TokenWeights

pytest.importorskip("peft")


def test_written_adapters_are_read_and_merged(encoder: SentenceEncoder, tiny_folder: Path, tmp_path: Path) -> None:
    adapted = encoder.twin()
    add_adapters(adapted.backbone, LoraSettings(rank=2), str(tiny_folder), seed=0)
    with torch.no_grad():
        for name, weight in adapted.backbone.named_parameters():
            if ".lora_B." in name:
                weight.normal_(std=0.1)
    write_adapters(adapted.backbone, tmp_path)
    adapters = read_adapters(tmp_path)
    assert adapters is not None
    assert (adapters.base, adapters.config["r"]) == (str(tiny_folder), 2)
    before = encoder.encode(["A dog runs."])
    adapters.merge_into(encoder.backbone)
    expected = adapted.encode(["A dog runs."])
    assert abs(encoder.encode(["A dog runs."]) - expected).max() < 1e-5
    assert abs(before - expected).max() > 1e-3


def test_a_folder_without_adapters_has_none(tmp_path: Path) -> None:
    assert read_adapters(tmp_path) is None


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"peft_type": "IA3"}, "adapters of kind IA3 are not supported"),
        ({"peft_type": "LORA", "base_model_name_or_path": "x", "use_dora": True}, "use_dora = True is not supported"),
        ({"peft_type": "LORA", "base_model_name_or_path": "x", "target_modules": ["a"], "r": 0}, "a rank is 0"),
    ],
)
def test_other_adapters_are_refused(entries: dict[str, object], message: str, tmp_path: Path) -> None:
    (tmp_path / CONFIG).write_text(json.dumps(entries))
    with pytest.raises(UserError, match=message):
        read_adapters(tmp_path)


def test_dense_layers_and_token_weights_are_read_back(encoder: SentenceEncoder, tmp_path: Path) -> None:
    count = encoder.tokenizer.vocabulary_size
    dense = Dense(32, 5, "relu", bias=False, use_residual=True)
    encoder.dense.append(dense)
    encoder.token_weights = TokenWeights(torch.rand(count))
    encoder.save(tmp_path)
    modules = list_modules(tmp_path)
    assert modules is not None
    assert modules.token_weights is not None
    assert torch.equal(read_token_weights(modules.token_weights, count).weights, encoder.token_weights.weights)
    with pytest.raises(UserError, match="each id needs one"):
        read_token_weights(modules.token_weights, count + 1)
    layer = read_layer(modules.layers[0])
    assert isinstance(layer, Dense)
    assert (layer.activation_name, layer.use_residual) == ("relu", True)
    assert layer.state_dict().keys() == dense.state_dict().keys()
    assert torch.equal(layer.linear.weight, dense.linear.weight)
    require_chain(tmp_path, 32, [layer, Dense(5, 2)])
    with pytest.raises(UserError, match="takes 32 features but is given 16"):
        require_chain(tmp_path, 16, [layer])


def test_the_head_shares_the_word_embeddings_where_they_are_tied(encoder: SentenceEncoder, tiny_folder: Path) -> None:
    words = encoder.backbone.get_input_embeddings()
    assert isinstance(words, nn.Embedding)
    assert load_masked_lm_head(tiny_folder, words).lm.get_output_embeddings().weight is words.weight
    assert load_masked_lm_head(tiny_folder, words, tied=False).lm.get_output_embeddings().weight is not words.weight


def test_a_folder_without_head_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    encoder = SentenceEncoder.load(tiny_folder, device="cpu")
    encoder.save(tmp_path)
    words = encoder.backbone.get_input_embeddings()
    assert isinstance(words, nn.Embedding)
    with pytest.raises(UserError, match=r"no masked-language-model head \(missing cls\.predictions") as caught:
        load_masked_lm_head(tmp_path, words)
    assert "\n" not in str(caught.value)


def test_an_architecture_without_masked_lm_is_refused(tmp_path: Path) -> None:
    from transformers import CLIPTextConfig

    CLIPTextConfig().save_pretrained(tmp_path)
    with pytest.raises(UserError, match="no masked-language-model head can be loaded from it") as caught:
        load_masked_lm_head(tmp_path, nn.Embedding(3, 2))
    assert "\n" not in str(caught.value)
