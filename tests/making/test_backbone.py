from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

from opencse.errors import UserError
from opencse.making.backbone import Shape, create_backbone, renew_backbone
from opencse.making.vocabulary import train_wordpiece
from opencse.text.tokenizer import Tokenizer

SHAPE = Shape(layers=1, hidden=16, heads=2, inner=24, positions=20)
LARGER = Shape(layers=1, hidden=64, heads=2, inner=64, positions=48, dropout=0.0)
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


@pytest.mark.parametrize("size", [{"hidden": 30, "heads": 4}, {"heads": 0}, {"layers": -1}, {"positions": 4}])
def test_a_shape_that_cannot_be_is_refused(size: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match="hidden 30 is not a multiple of heads 4" if "hidden" in size else None):
        Shape.model_validate(size)


@pytest.mark.parametrize("new_layers", [0, 1, 2])
def test_the_last_layers_are_drawn_again(tmp_path: Path, sentences: list[str], new_layers: int) -> None:
    tokenizer = train_wordpiece(sentences[:100], 200, max_length=48)
    create_backbone(tokenizer, LARGER.model_copy(update={"layers": 2}), tmp_path / "model", 1)
    facts = [
        renew_backbone(str(tmp_path / "model"), tmp_path / name, new_layers, seed=seed)
        for name, seed in (("a", 3), ("b", 3), ("c", 4))
    ]
    assert facts[0] == ["as it was", "layers drawn again: 2", "layers drawn again: 1, 2"][new_layers]
    before, a, b, c = (load_file(tmp_path / name / "model.safetensors") for name in ("model", "a", "b", "c"))
    assert a.keys() == before.keys()
    assert all(torch.equal(a[key], b[key]) for key in a)
    moved = {key for key in a if not torch.equal(a[key], before[key])}
    layers = {int(key.split("encoder.layer.")[1].split(".")[0]) + 1 for key in moved}
    assert layers == set(range(3 - new_layers, 3))
    assert bool(new_layers) == any(not torch.equal(a[key], c[key]) for key in a)


def test_a_new_backbone_is_a_function_of_its_seed(sentences: list[str], tmp_path: Path) -> None:
    tokenizer = train_wordpiece(sentences[:100], 200, max_length=48)
    torch.manual_seed(9)
    drawn = torch.random.get_rng_state()
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        create_backbone(tokenizer, LARGER, tmp_path / name, seed)
    assert torch.equal(torch.random.get_rng_state(), drawn), "the caller's random state is left alone"
    weights = {name: load_file(tmp_path / name / "model.safetensors") for name in "abc"}
    assert all(torch.equal(weights["a"][key], weights["b"][key]) for key in weights["a"])
    key = "bert.encoder.layer.0.attention.self.query.weight"
    assert not torch.equal(weights["a"][key], weights["c"][key])
    assert float(weights["a"][key].std()) == pytest.approx(0.02, rel=0.1)
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    sizes = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    assert [config[name] for name in sizes] == [len(tokenizer), 64, 1, 2, 64]
    assert [config[name] for name in ("max_position_embeddings", "hidden_dropout_prob", "pad_token_id")] == [48, 0.0, 0]
    assert Tokenizer.load(tmp_path / "a").vocabulary_size == len(tokenizer)
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "a").write_text("a file in the way")
    with pytest.raises(UserError, match="the new backbone cannot be written") as caught:
        create_backbone(tokenizer, LARGER, tmp_path / "a", 1)
    assert "\n" not in str(caught.value)
