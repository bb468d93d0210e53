"""Backbones that read padding are refused; those that leave it out are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from opencse.errors import UserError
from opencse.model_folder.backbone import load_backbone

SIZES: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 32,
}


def convbert() -> Any:
    from transformers import ConvBertConfig, ConvBertModel

    return ConvBertModel(ConvBertConfig(embedding_size=32, **SIZES))


def fnet() -> Any:
    from transformers import FNetConfig, FNetModel

    return FNetModel(FNetConfig(**SIZES))


def canine() -> Any:
    from transformers import CanineConfig, CanineModel

    return CanineModel(CanineConfig(**SIZES))


def beit() -> Any:
    from transformers import BeitConfig, BeitModel

    return BeitModel(BeitConfig(image_size=32, patch_size=16, **SIZES))


def electra() -> Any:
    from transformers import ElectraConfig, ElectraModel

    return ElectraModel(ElectraConfig(embedding_size=16, **SIZES))


def llama() -> Any:
    from transformers import LlamaConfig, LlamaModel

    return LlamaModel(LlamaConfig(num_key_value_heads=2, pad_token_id=39, **SIZES))


def saved(make: Callable[[], Any], folder: Path) -> Path:
    torch.manual_seed(0)
    model = make()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("make", [convbert, fnet])
def test_a_backbone_that_reads_padding_is_refused(make: Callable[[], Any], tmp_path: Path) -> None:
    message = f"in this {make.__name__} model padding changes the vector of a text"
    with pytest.raises(UserError, match=message):
        load_backbone(saved(make, tmp_path))


@pytest.mark.parametrize("make", [canine, beit])
def test_a_backbone_without_token_embeddings_is_refused(make: Callable[[], Any], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"a {make.__name__} model has no table of token embeddings"):
        load_backbone(saved(make, tmp_path))


@pytest.mark.parametrize("make", [electra, llama])
def test_a_backbone_that_masks_padding_is_opened(make: Callable[[], Any], tmp_path: Path) -> None:
    backbone = load_backbone(saved(make, tmp_path))
    assert not backbone.training
    assert load_backbone(tmp_path, layers=0).config.num_hidden_layers == 0
