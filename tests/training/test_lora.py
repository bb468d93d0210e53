"""Adapters: what is trained, what is written, and that the same model is read wherever it is opened."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from helpers import Broken, json_in, resumed_is_whole
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.adapters import LoraSettings, add_adapters, merge_adapters
from opencse.recipes.recipe import load_recipe
from opencse.runs.run import Run
from opencse.text import sample
from opencse.text.readers import Source

pytest.importorskip("peft")

SETTINGS = (
    "training.batch_size=8",
    "training.max_steps=6",
    "training.evaluate_every=2",
    "training.checkpoint_every=2",
    "training.learning_rate=0.02",
    "training.precision=float32",
    "encoder.pooling=mean",
    "encoder.lora={rank=4, dropout=0.1}",
)
TEXTS = ["A cat sat.", "Rain fell all day on the town.", "The train is late again."]


def run(model: Path, out: Path, *more: str, recipe: str = "simcse") -> Path:
    job = Run(text=Source(str(sample.TRAIN)), recipe=recipe, model=str(model), settings=(*SETTINGS, *more), dev=None)
    return job.train(out).folder


@pytest.fixture(scope="module")
def trained(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tiny_folder, tmp_path_factory.mktemp("lora") / "out")


def vectors(folder: Path) -> np.ndarray:
    return SentenceEncoder.load(folder, device="cpu").encode(TEXTS)


def test_new_adapters_change_nothing_and_merging_none(encoder: SentenceEncoder, tiny_folder: Path) -> None:
    before = encoder.encode(TEXTS)
    names = set(encoder.state_dict())
    add_adapters(encoder.backbone, LoraSettings(rank=2, targets=("query", "value")), str(tiny_folder), seed=0)
    assert np.abs(encoder.encode(TEXTS) - before).max() < 1e-6
    trained = {name for name, weight in encoder.backbone.named_parameters() if weight.requires_grad}
    assert len(trained) == 2 * 2 * encoder.depth
    assert all("lora_" in name and ("query" in name or "value" in name) for name in trained)
    with torch.no_grad():
        for name, weight in encoder.backbone.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.5, generator=torch.Generator().manual_seed(len(name)))
    unmerged = encoder.encode(TEXTS)
    assert np.abs(unmerged - before).max() > 1e-3
    merge_adapters(encoder.backbone)
    assert np.abs(encoder.encode(TEXTS) - unmerged).max() < 1e-6
    assert set(encoder.state_dict()) == names
    assert all(weight.requires_grad for weight in encoder.parameters())


@pytest.mark.slow
def test_only_adapted_weights_change_and_both_folders_are_one_model(trained: Path, tiny_folder: Path) -> None:
    start, merged = load_file(tiny_folder / "model.safetensors"), load_file(trained / "model.safetensors")
    changed = {name for name, weight in merged.items() if not torch.equal(weight, start.get(f"bert.{name}", weight))}
    assert len(changed) == 6 * 3
    assert all("embeddings" not in name and "LayerNorm" not in name and "bias" not in name for name in changed)
    assert all(".lora_" in name for name in load_file(trained / "adapter" / "adapter_model.safetensors"))
    assert np.abs(vectors(trained) - vectors(trained / "adapter")).max() < 1e-6
    assert np.abs(vectors(trained) - vectors(tiny_folder)).max() > 1e-3


def test_sentence_transformers_opens_both(trained: Path) -> None:
    from sentence_transformers import SentenceTransformer

    for folder in (trained, trained / "adapter"):
        assert np.abs(SentenceTransformer(str(folder), device="cpu").encode(TEXTS) - vectors(trained)).max() < 1e-5


def test_what_peft_itself_wrote_is_opened(tiny_folder: Path, tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModel

    torch.manual_seed(0)
    model = get_peft_model(
        AutoModel.from_pretrained(tiny_folder, add_pooling_layer=False),
        LoraConfig(r=3, target_modules=["query"], init_lora_weights=False, use_rslora=True),
    )
    model.save_pretrained(tmp_path)
    encoder = SentenceEncoder.load(tmp_path, device="cpu")
    tokens = encoder.tokenizer.pad(encoder.tokenize(TEXTS))
    with torch.no_grad():
        states = model.eval()(input_ids=tokens.input_ids, attention_mask=tokens.attention_mask).last_hidden_state
    expected = encoder.pooling([states], tokens.attention_mask).numpy()
    assert np.abs(encoder.encode(TEXTS) - expected).max() < 1e-5
    assert np.abs(encoder.encode(TEXTS) - vectors(tiny_folder)).max() > 1e-4


@pytest.mark.slow
def test_a_resumed_run_is_the_same_bit_for_bit(tiny_folder: Path, tmp_path: Path) -> None:
    more = ('objective.terms=[{kind="mlm"}]', "training.chunk=4")
    job = Run(
        text=Source(str(sample.TRAIN)),
        model=str(tiny_folder),
        settings=(*SETTINGS, *more),
        dev="sample",
        recipe="simcse",
    )
    whole = resumed_is_whole(job, tmp_path, Broken(3))
    assert "last/adapter/adapter_model.safetensors" in whole


def test_settings_that_make_no_sense_are_refused(tiny_folder: Path, trained: Path, tmp_path: Path) -> None:
    assert load_recipe("simcse", overrides=["encoder.lora.rank=2"]).encoder.lora == LoraSettings(rank=2)
    with pytest.raises(UserError, match=r"encoder\.lora\.rank"):
        load_recipe("simcse", overrides=["encoder.lora.rank=0"])
    with pytest.raises(UserError, match="unset layers"):
        load_recipe("simcse", overrides=["encoder.lora.rank=2", "encoder.layers=1"])
    with pytest.raises(UserError, match=r"adapters cannot be put on it .* linear maps: dense, key, query, value"):
        run(tiny_folder, tmp_path / "out", 'encoder.lora={targets=["nothing"]}')
    with pytest.raises(UserError, match="has no linear maps, which adapters are added to"):
        run(Path("opencse-mini"), tmp_path / "out")
    with pytest.raises(UserError, match=r"training\.packed: the backbone has layers"):
        run(tiny_folder, tmp_path / "out", "training.packed=true")
    with pytest.raises(UserError, match="has adapters already; merge them"):
        run(trained / "adapter", tmp_path / "out")


def test_foreign_adapters_are_refused_by_name(trained: Path, tmp_path: Path) -> None:
    folder = tmp_path / "adapter"
    shutil.copytree(trained / "adapter", folder)
    config = json_in(folder / "adapter_config.json")
    changes: tuple[tuple[dict[str, object], str], ...] = (
        ({"peft_type": "LOHA"}, "peft_type = 'LOHA' is not supported here"),
        ({"base_model_name_or_path": None}, "base_model_name_or_path is missing"),
        ({"base_model_name_or_path": "./gone"}, "holds adapters alone, and their model .*gone: no such folder"),
        ({"use_dora": True}, "use_dora = True is not supported here"),
        ({"target_modules": "(a+)+$"}, "target_modules is .*; a list of names was expected"),
        ({"r": 2}, "adapter_model.safetensors: the adapters do not fit"),
        ({"target_modules": ["query"]}, "weights are missing or belong nowhere"),
    )
    for change, fault in changes:
        (folder / "adapter_config.json").write_text(json.dumps(config | change), encoding="utf-8")
        with pytest.raises(UserError, match=fault):
            SentenceEncoder.load(folder, device="cpu")
