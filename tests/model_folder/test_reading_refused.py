"""What cannot be loaded is refused in one line that names what is wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.plain_tokenizer import read_plain_tokenizer

TEXTS = ["A dog.", "It rains."]


def refused(folder: Path | str) -> str:
    with pytest.raises(UserError) as caught:
        SentenceEncoder.load(folder, device="cpu")
    message = str(caught.value)
    assert message.strip()
    assert "\n" not in message
    return message


@pytest.fixture(scope="module")
def bert(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BertModel with its pooler, and a tokenizer."""
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("bert")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tiny_folder / name, folder)
    sizes: dict[str, Any] = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=800, num_hidden_layers=2, **sizes)).save_pretrained(folder)
    return folder


@pytest.fixture
def copy(bert: Path, tmp_path: Path) -> Path:
    folder = shutil.copytree(bert, tmp_path / "copy")
    assert SentenceEncoder.load(folder, device="cpu").encode(TEXTS).shape == (2, 16)
    return folder


def change_weights(folder: Path, **changes: torch.Tensor | None) -> None:
    """Replaces weights of ``folder`` (dots written as two underscores), or takes them out."""
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    for key, value in changes.items():
        name = key.replace("__", ".")
        assert name in weights
        del weights[name]
        if value is not None:
            weights[name] = value
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def test_a_missing_weight_is_named(copy: Path) -> None:
    change_weights(copy, encoder__layer__1__output__dense__weight=None)
    message = refused(copy)
    assert "1 weights of BertModel are missing" in message
    assert "encoder.layer.1.output.dense.weight" in message


def test_a_weight_of_another_shape_is_named(copy: Path) -> None:
    change_weights(copy, encoder__layer__0__output__dense__weight=torch.zeros(3, 3))
    assert "encoder.layer.0.output.dense.weight" in refused(copy)


def test_a_pooler_that_does_not_fit_is_no_matter(copy: Path) -> None:
    expected = SentenceEncoder.load(copy, device="cpu").encode(TEXTS)
    change_weights(copy, pooler__dense__weight=torch.zeros(3, 3))
    assert np.array_equal(SentenceEncoder.load(copy, device="cpu").encode(TEXTS), expected)


def test_a_truncated_weights_file(copy: Path) -> None:
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    assert "no transformers model can be loaded" in refused(copy)


class Touch:
    """Pickled as a call that makes a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return Path.touch, (self.file,)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickled_weights_file(zipped: bool, copy: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    expected, state = SentenceEncoder.load(copy, device="cpu").encode(TEXTS), load_file(copy / "model.safetensors")
    (copy / "model.safetensors").unlink()
    weights, ran = copy / "pytorch_model.bin", tmp_path / "ran"

    def save(what: object) -> bytes:
        torch.save(what, weights, _use_new_zipfile_serialization=zipped)
        return weights.read_bytes()

    whole = save(state)
    assert np.array_equal(SentenceEncoder.load(copy, device="cpu").encode(TEXTS), expected)
    broken = [
        whole[:5000],
        whole[:10],
        whole[:-3],
        b"",
        b"version https://git-lfs.github.com/spec/v1",
        b"\x80\x02h\x05.",
    ]
    for content in (*broken, save({**state, "more": Touch(ran)}), save([1]), save({1: state["pooler.dense.bias"]})):
        weights.write_bytes(content)
        assert refused(copy).startswith(f"{weights}: is damaged, or holds more than tensors by name")
    assert not ran.exists()


def test_no_weights_file(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    assert "no transformers model can be loaded" in refused(copy)


@pytest.mark.parametrize(
    "config", ["{", "{}", '{"model_type": "unheard-of"}', '{"model_type": "bert", "hidden_size": "x"}']
)
def test_a_broken_configuration(copy: Path, config: str) -> None:
    (copy / "config.json").write_text(config)
    assert str(copy) in refused(copy)


def test_a_length_without_room_for_text(copy: Path) -> None:
    config = copy / "sentence_bert_config.json"
    config.write_text(json.dumps({"max_seq_length": 2}))
    assert "longest input of 2 ids leaves no room for text next to the 2 special tokens" in refused(copy)
    config.write_text(json.dumps({"max_seq_length": 3}))
    assert SentenceEncoder.load(copy, device="cpu").max_length == 3


def test_code_in_the_folder_is_not_run(copy: Path) -> None:
    config = '{"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config", "AutoModel": "mine.Model"}}'
    (copy / "config.json").write_text(config)
    (copy / "mine.py").write_text("raise SystemExit('was run')")
    refused(copy)


@pytest.mark.parametrize("inputs", [["input_ids", "token_type_ids", "attention_mask"], ["input_ids", "attention_mask"]])
def test_tokens_of_another_type(inputs: list[str], copy: Path) -> None:
    described = json.loads((copy / "tokenizer.json").read_text(encoding="utf-8"))
    described["post_processor"]["single"][1]["Sequence"]["type_id"] = 1
    (copy / "tokenizer.json").write_text(json.dumps(described), encoding="utf-8")
    config = json.loads((copy / "tokenizer_config.json").read_text(encoding="utf-8"))
    config |= {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": inputs}
    (copy / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    if "token_type_ids" in inputs:
        assert "a type other than 0" in refused(copy)
    else:
        assert SentenceEncoder.load(copy, device="cpu").encode(TEXTS).shape == (2, 16)
    assert read_plain_tokenizer(copy) is None


def test_no_tokenizer(copy: Path) -> None:
    for file in copy.glob("tokenizer*"):
        file.unlink()
    assert "has no tokenizer" in refused(copy)


def test_missing_folder_file_and_empty_folder(tmp_path: Path) -> None:
    assert "no such folder" in refused(tmp_path / "not" / "here")
    file = tmp_path / "model.bin"
    file.write_text("")
    assert "is a file; give the folder" in refused(file)
    (tmp_path / "empty").mkdir()
    assert "holds no model" in refused(tmp_path / "empty")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    assert "--resume" in refused(tmp_path / "run")


@pytest.mark.parametrize("name", ["nobody/no-such-model", "no-such-model", "not a hub id"])
def test_a_hub_id_offline(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    message = refused(name)
    assert message.startswith(f"{name}: neither a folder here nor a model that could be fetched from the Hub (")
    assert "opencse-mini" in message


def test_an_unknown_pooling_is_refused_before_anything_is_loaded() -> None:
    with pytest.raises(UserError, match=r"unknown pooling 'meen' \(did you mean 'mean'\?\); known: cls, mean"):
        SentenceEncoder.load("nobody/no-such-model", pooling="meen", device="cpu")


@pytest.mark.parametrize("pooling", ["first_last_1", "top2"])
def test_pooling_of_a_layer_that_is_not_there(pooling: str) -> None:
    """The built-in encoder has no layers."""
    with pytest.raises(UserError, match=f"opencse-mini: pooling {pooling} needs more layers"):
        SentenceEncoder.load(pooling=pooling, device="cpu")
