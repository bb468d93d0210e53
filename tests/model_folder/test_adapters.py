"""Adapters of a folder; their training is tested in tests/training/test_lora.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.adapters import (
    CONFIG,
    LoraSettings,
    add_adapters,
    read_adapters,
    shares_the_start,
    write_adapters,
)

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
        ({"peft_type": "LORA"}, "base_model_name_or_path is missing"),
        ({"peft_type": "LORA", "base_model_name_or_path": "x", "use_dora": True}, "use_dora = True is not supported"),
        ({"peft_type": "LORA", "base_model_name_or_path": "x", "target_modules": ["a"], "r": 0}, "a rank is 0"),
    ],
)
def test_other_adapters_are_refused(entries: dict[str, object], message: str, tmp_path: Path) -> None:
    (tmp_path / CONFIG).write_text(json.dumps(entries))
    with pytest.raises(UserError, match=message):
        read_adapters(tmp_path)


def test_only_b_is_averaged_with_the_start() -> None:
    assert shares_the_start("layer.query.lora_B.default.weight")
    assert not shares_the_start("layer.query.lora_A.default.weight")
