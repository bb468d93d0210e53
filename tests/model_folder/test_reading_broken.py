"""A folder with one wrong value is refused in one line that names the file and the key."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.dense import Dense


@pytest.fixture(scope="module")
def whole(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of sentence-transformers' layout with a Dense module."""
    folder = tmp_path_factory.mktemp("whole") / "model"
    encoder = SentenceEncoder.load(tiny_folder, device="cpu")
    encoder.dense.append(Dense.linear_head(32, torch.Generator().manual_seed(0), 8))
    encoder.save(folder)
    assert SentenceEncoder.load(folder, device="cpu").dimension == 8
    return folder


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "model")


def refused(folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        SentenceEncoder.load(folder, device="cpu")
    assert "\n" not in str(caught.value)
    return str(caught.value)


DENSE, POOLING = "2_Dense/config.json", "1_Pooling/config.json"
SENTENCE, PROMPTS = "sentence_bert_config.json", "config_sentence_transformers.json"


@pytest.mark.parametrize(
    ("file", "key", "value"),
    [
        (SENTENCE, "max_seq_length", "many"),
        (SENTENCE, "max_seq_length", 0),
        (SENTENCE, "max_seq_length", True),
        (SENTENCE, "do_lower_case", "false"),
        (SENTENCE, "modality_config", ["text"]),
        (PROMPTS, "prompts", ["query: "]),
        (PROMPTS, "default_prompt_name", 3),
        (DENSE, "in_features", "32"),
        (DENSE, "in_features", -1),
        (DENSE, "out_features", 10**18),
        (DENSE, "bias", "no"),
        (DENSE, "activation_function", {}),
        (POOLING, "pooling_mode", 7),
        (POOLING, "pooling_mode", [{}]),
        (POOLING, "pooling_mode_mean_tokens", "yes"),
        (POOLING, "include_prompt", "no"),
        ("tokenizer_config.json", "model_max_length", "long"),
        ("tokenizer_config.json", "model_max_length", -1),
    ],
)
def test_a_value_of_another_kind(copy: Path, file: str, key: str, value: Any) -> None:
    path = copy / file
    if key == "model_max_length":
        (copy / SENTENCE).unlink()  # it would be asked first
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    message = refused(copy)
    assert Path(file).name in message
    assert key in message
    assert repr(value) in message or str(value) in message


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "\x00", '{"max_seq_length": ' + "9" * 5000 + "}", "[" * 100_000])
@pytest.mark.parametrize("file", [SENTENCE, PROMPTS, DENSE, POOLING, "modules.json"])
def test_a_file_that_is_no_object(copy: Path, file: str, text: str) -> None:
    if file == "modules.json" and text.startswith('{"max'):
        pytest.skip("an object of modules.json is another fault")
    (copy / file).write_text(text)
    assert Path(file).name in refused(copy)


@pytest.mark.parametrize("path", ["../model/2_Dense", "/", 3, None, "a\x00b"])
def test_a_module_outside_the_folder(copy: Path, path: object) -> None:
    listing = json.loads((copy / "modules.json").read_text())
    listing[2]["path"] = path
    (copy / "modules.json").write_text(json.dumps(listing))
    assert f"{copy / 'modules.json'}: path is {path!r}" in refused(copy)


def test_folders_of_modules_without_their_list(copy: Path) -> None:
    (copy / "modules.json").unlink()
    message = refused(copy)
    assert message.startswith(f"{copy}: modules.json is missing, which says how 1_Pooling, 2_Dense is used")
    assert "copy modules.json from the model" in message
    with pytest.raises(UserError, match=r"modules\.json is missing"):
        SentenceEncoder.load(copy, pooling="cls", device="cpu")
    for name in ("1_Pooling", "2_Dense"):
        shutil.rmtree(copy / name)
    assert SentenceEncoder.load(copy, device="cpu").dimension == 32


@pytest.mark.parametrize("name", ["1_Pooling", "2_Dense"])
def test_a_list_of_modules_whose_folder_is_not_there(copy: Path, name: str) -> None:
    shutil.rmtree(copy / name)
    message = refused(copy)
    assert f"{copy / 'modules.json'}: names the {name[2:]} module in {name}, but there is no such folder" in message


def test_normalize_needs_no_folder(copy: Path) -> None:
    """Git keeps no empty folders."""
    listing = json.loads((copy / "modules.json").read_text())
    path = "3_Normalize"
    listing.append({"idx": 3, "name": "3", "path": path, "type": "sentence_transformers.models.Normalize"})
    (copy / "modules.json").write_text(json.dumps(listing))
    assert SentenceEncoder.load(copy, device="cpu").normalize


@pytest.mark.parametrize("change", ["gone", "cut", "shape", "name"])
def test_the_weights_of_a_dense_module(copy: Path, change: str) -> None:
    from safetensors.torch import load_file, save_file

    file = copy / "2_Dense" / "model.safetensors"
    weights = load_file(file)
    if change == "gone":
        file.unlink()
    elif change == "cut":
        file.write_bytes(file.read_bytes()[:-10])
    elif change == "shape":
        save_file({**weights, "linear.weight": torch.zeros(8, 5)}, file)
    else:
        save_file({"other": weights["linear.weight"]}, file)
    assert "2_Dense" in refused(copy)


@pytest.mark.parametrize("extra", [1, 40])
def test_a_tokenizer_with_more_ids_than_the_embedding_has_rows(copy: Path, extra: int) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(copy)
    rows = len(tokenizer)
    tokenizer.add_tokens([f"new{i}" for i in range(extra)])
    tokenizer.save_pretrained(copy)
    message = refused(copy)
    assert f"the tokenizer has {rows + extra:,} ids, the embedding {rows:,} rows" in message
    assert f"model.resize_token_embeddings({rows + extra})" in message


def test_a_model_that_reads_no_text(copy: Path) -> None:
    from transformers import CLIPConfig

    CLIPConfig().save_pretrained(copy)
    assert "has no hidden_size; give a text encoder" in refused(copy)


@pytest.mark.parametrize("given", [5, None, 0.5, [], b"model", object])
def test_what_is_no_name_of_a_model(given: Any) -> None:
    with pytest.raises(TypeError, match=rf"model is a name or a folder \(str or Path\), not {type(given).__name__}"):
        SentenceEncoder.load(given)


def test_an_empty_name() -> None:
    with pytest.raises(UserError, match="no model is named"):
        SentenceEncoder.load("")


@pytest.mark.parametrize("name", ["a\x00b", "x" * 5000, "\udc80"])
def test_a_name_that_no_folder_can_have(name: str) -> None:
    with pytest.raises(UserError):
        SentenceEncoder.load(name)


@pytest.mark.parametrize(("a", "b", "name"), [(5, "x", "a"), ("x", None, "b"), ("x", 0.5, "b")])
def test_similarity_of_what_is_no_text(copy: Path, a: Any, b: Any, name: str) -> None:
    encoder = SentenceEncoder.load(copy, device="cpu")
    with pytest.raises(TypeError, match=f"{name} is a text, texts or an array of vectors, not "):
        encoder.similarity(a, b)
    with pytest.raises(UserError, match="text 1 of 1 is of type float"):
        encoder.similarity("x", [0.5])  # type: ignore[list-item]


def test_evaluate_names_a_wrong_argument(small_sts: Path) -> None:
    from opencse import evaluate

    with pytest.raises(UserError, match="a int cannot be evaluated; give a folder"):
        evaluate(5, small_sts)
    with pytest.raises(TypeError, match="data is a path"):
        evaluate("opencse-mini", 5)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="suite is the name"):
        evaluate("opencse-mini", "sts", 5)  # type: ignore[call-overload]
