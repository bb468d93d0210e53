from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from opencse.errors import UserError
from opencse.making.backbone import Shape, create_backbone
from opencse.making.vocabulary import train_wordpiece

SHAPE = Shape(layers=1, hidden=16, heads=2, inner=24, positions=20)
TEXTS = ["a few words to learn a vocabulary from", "and a few more of them"] * 40


def test_the_folder_holds_a_model_of_the_shape(tmp_path: Path) -> None:
    tokenizer = train_wordpiece(TEXTS, 100)
    state = torch.get_rng_state()
    create_backbone(tokenizer, SHAPE, tmp_path / "new", seed=1)
    assert torch.equal(torch.get_rng_state(), state), "the global random state stays unchanged"
    config = AutoModel.from_pretrained(tmp_path / "new").config
    assert (config.num_hidden_layers, config.hidden_size, config.intermediate_size) == (1, 16, 24)
    assert config.vocab_size == len(tokenizer)
    assert AutoTokenizer.from_pretrained(tmp_path / "new")("a few").input_ids == tokenizer("a few").input_ids


def test_the_seed_decides_the_weights(tmp_path: Path) -> None:
    tokenizer = train_wordpiece(TEXTS, 100)
    weights = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        create_backbone(tokenizer, SHAPE, tmp_path / name, seed)
        weights.append((tmp_path / name / "model.safetensors").read_bytes())
    assert weights[0] == weights[1] != weights[2]


def test_a_width_that_the_heads_do_not_divide_is_refused() -> None:
    with pytest.raises(ValueError, match="hidden 16 is not a multiple of heads 3"):
        Shape(hidden=16, heads=3)


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="the new backbone cannot be written"):
        create_backbone(train_wordpiece(TEXTS, 100), SHAPE, tmp_path / "file", 1)
