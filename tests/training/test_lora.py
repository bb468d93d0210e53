"""Adapters: what is trained, what is written, and that the same model is read wherever it is opened."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import opencse
from helpers import Broken, Heard
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.adapters import LoraSettings, add_adapters, merge_adapters
from opencse.recipes.recipe import load_recipe
from opencse.runs.job import TrainJob
from opencse.text import sample
from opencse.text.readers import Source
from opencse.training.averages import average

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


def run(model: Path, out: Path, *more: str, recipe: str = "simcse", dev: str | None = None) -> Path:
    job = TrainJob(
        text=Source(str(sample.TRAIN)), recipe=recipe, model=str(model), settings=(*SETTINGS, *more), dev=dev
    )
    return job.run(out).folder


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


def test_only_adapted_weights_change_and_both_folders_are_one_model(trained: Path, tiny_folder: Path) -> None:
    start, merged = load_file(tiny_folder / "model.safetensors"), load_file(trained / "model.safetensors")
    changed = {name for name, weight in merged.items() if not torch.equal(weight, start.get(f"bert.{name}", weight))}
    assert len(changed) == 6 * 3
    assert all("embeddings" not in name and "LayerNorm" not in name and "bias" not in name for name in changed)
    assert all(".lora_" in name for name in load_file(trained / "adapter" / "adapter_model.safetensors"))
    assert np.abs(vectors(trained) - vectors(trained / "adapter")).max() < 1e-6
    assert np.abs(vectors(trained) - vectors(tiny_folder)).max() > 1e-3


def test_the_plan_says_what_is_trained(tiny_folder: Path, tmp_path: Path) -> None:
    heard = Heard()
    job = TrainJob(text=Source(str(sample.TRAIN)), model=str(tiny_folder), settings=SETTINGS, dev=None)
    plan = job.dry_run(tmp_path / "out", progress=heard)
    assert 0 < plan.trained < plan.parameters / 2
    assert any("rank 4, alpha 16 on all linear maps" in line for line in plan.lines())
    assert any("padded: the backbone has layers that are not plain linear maps" in line for line in plan.lines())


def test_sentence_transformers_opens_both(trained: Path) -> None:
    from sentence_transformers import SentenceTransformer

    for folder in (trained, trained / "adapter"):
        assert np.abs(SentenceTransformer(str(folder), device="cpu").encode(TEXTS) - vectors(trained)).max() < 1e-5


def test_merge_writes_the_same_model(trained: Path, tmp_path: Path) -> None:
    opencse.merge(trained / "adapter", tmp_path / "merged")
    assert np.abs(vectors(tmp_path / "merged") - vectors(trained)).max() < 1e-6
    assert not (tmp_path / "merged" / "adapter_config.json").exists()
    with pytest.raises(UserError, match="it is a complete model already"):
        opencse.merge(trained, tmp_path / "again")


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
    whole = run(tiny_folder, tmp_path / "whole", *more, dev="sample")
    job = TrainJob(
        text=Source(str(sample.TRAIN)),
        model=str(tiny_folder),
        settings=(*SETTINGS, *more),
        dev="sample",
        recipe="simcse",
    )
    with pytest.raises(RuntimeError, match="broken off"):
        job.run(tmp_path / "parts", progress=Broken(3, RuntimeError("broken off")))
    job.run(tmp_path / "parts", resume=True)
    for name in ("model.safetensors", "last/model.safetensors", "last/adapter/adapter_model.safetensors"):
        one, other = load_file(whole / name), load_file(tmp_path / "parts" / name)
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["esimcse-queue", "pretrain"])
def test_other_objectives_train_adapters(tiny_folder: Path, tmp_path: Path, recipe: str) -> None:
    text = sample.TRAIN
    settings = (*(SETTINGS[1:] if recipe == "pretrain" else SETTINGS), "training.max_steps=2", "data.max_length=32")
    job = TrainJob(text=Source(str(text)), recipe=recipe, model=str(tiny_folder), settings=settings, dev=None)
    folder = job.run(tmp_path / "out").folder
    written = load_file(folder / "adapter" / "adapter_model.safetensors")
    assert any("lora_B" in name and weight.abs().max() > 0 for name, weight in written.items())


def test_averages_with_the_start_are_averages_of_the_merged_weights(
    encoder: SentenceEncoder, tiny_folder: Path
) -> None:
    add_adapters(encoder.backbone, LoraSettings(rank=2), str(tiny_folder), seed=1)
    encoder.adapted = True
    start = {name: weight.clone() for name, weight in encoder.state_dict().items() if ".lora_A." not in name}
    with torch.no_grad():
        for name, weight in encoder.backbone.named_parameters():
            if "lora_" in name:
                weight.normal_(std=0.3, generator=torch.Generator().manual_seed(len(name)))
    trained = {name: weight.clone() for name, weight in encoder.state_dict().items()}
    key = "encoder.layer.0.attention.self.query.weight"
    found = {}
    for share in (0.0, 0.25, 1.0):
        encoder.load_state_dict(average(start, trained, share))
        twin = encoder.twin()
        merge_adapters(twin.backbone)
        found[share] = twin.backbone.state_dict()[key]
    assert (found[1.0] - found[0.0]).abs().max() > 0.01
    assert torch.allclose(found[0.25], 0.75 * found[0.0] + 0.25 * found[1.0], atol=1e-6)


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
    config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    changes: tuple[tuple[dict[str, object], str], ...] = (
        ({"peft_type": "LOHA"}, "adapters of kind LOHA are not supported here, only LORA"),
        ({"base_model_name_or_path": None}, "base_model_name_or_path is missing"),
        ({"base_model_name_or_path": "./gone"}, "holds adapters alone, and their model .*gone: no such folder"),
        ({"use_dora": True}, "use_dora = True is not supported here"),
        ({"target_modules": "(a+)+$"}, "target_modules is .*; a list of names was expected"),
        ({"r": 10**9}, "a rank is 1000000000; a whole number from 1 to 65,536"),
        ({"r": 2}, "adapter_model.safetensors: the adapters do not fit"),
        ({"target_modules": ["query"]}, "weights are missing or belong nowhere"),
    )
    for change, fault in changes:
        (folder / "adapter_config.json").write_text(json.dumps(config | change), encoding="utf-8")
        with pytest.raises(UserError, match=fault):
            SentenceEncoder.load(folder, device="cpu")


def test_adapters_without_weights_or_with_others(trained: Path, tmp_path: Path) -> None:
    folder = tmp_path / "adapter"
    shutil.copytree(trained / "adapter", folder)
    file = folder / "adapter_model.safetensors"
    weights = load_file(file)
    save_file(dict(list(weights.items())[1:]), file)
    with pytest.raises(UserError, match="1 weights are missing"):
        SentenceEncoder.load(folder, device="cpu")
    file.write_bytes(b"no weights")
    with pytest.raises(UserError, match="do not fit"):
        SentenceEncoder.load(folder, device="cpu")
    file.unlink()
    with pytest.raises(UserError, match="is missing; save the adapters as safetensors"):
        SentenceEncoder.load(folder, device="cpu")
