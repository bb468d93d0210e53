"""A folder with one wrong value is refused in one line that names the file and the key."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.dense import Dense
from opencse.modules.pooling import Pooling
from opencse.modules.prompts import Prompts


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
        (PROMPTS, "prompts", ["query: "]),
        (PROMPTS, "default_prompt_name", 3),
        (DENSE, "out_features", 10**18),
        (POOLING, "include_prompt", "no"),
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


def test_a_module_outside_the_folder(copy: Path) -> None:
    path = "../model/2_Dense"
    listing = json.loads((copy / "modules.json").read_text())
    listing[2]["path"] = path
    (copy / "modules.json").write_text(json.dumps(listing))
    assert f"{copy / 'modules.json'}: path is {path!r}" in refused(copy)


def test_a_tokenizer_with_more_ids_than_the_embedding_has_rows(copy: Path) -> None:
    extra = 40
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(copy)
    rows = len(tokenizer)
    tokenizer.add_tokens([f"new{i}" for i in range(extra)])
    tokenizer.save_pretrained(copy)
    message = refused(copy)
    assert f"the tokenizer has {rows + extra:,} ids, the embedding {rows:,} rows" in message
    assert f"model.resize_token_embeddings({rows + extra})" in message


def test_a_file_that_is_no_object(copy: Path) -> None:
    for file in (SENTENCE, DENSE, "modules.json"):
        whole = (copy / file).read_text()
        for text in ("", "[3]", "[" * 100_000):
            (copy / file).write_text(text)
            assert Path(file).name in refused(copy)
        (copy / file).write_text(whole)


def test_the_folder_and_the_weights_of_a_dense_module(copy: Path) -> None:
    from safetensors.torch import save_file

    file = copy / "2_Dense" / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    assert "2_Dense" in refused(copy)
    save_file({"linear.weight": torch.zeros(8, 5)}, file)
    assert "2_Dense" in refused(copy)
    shutil.rmtree(copy / "2_Dense")
    assert "modules.json: names the Dense module in 2_Dense, but there is no such folder" in refused(copy)


Edit = Callable[[Path], object]


@pytest.fixture(scope="module")
def good(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Transformer, weighted layers, pooling, two dense layers, normalisation and a prompt."""
    encoder = SentenceEncoder.load(tiny_folder, pooling="first_last_1", device="cpu")
    encoder.dense.extend([Dense(32, 8), Dense(8, 4, "identity")])
    encoder.normalize = True
    encoder.prompts = Prompts({"default": "query: "}, "default")
    folder = tmp_path_factory.mktemp("good")
    encoder.save(folder)
    return folder


def put(path: str, **values: Any) -> Edit:
    """Sets keys of a JSON object in the folder; None takes a key out."""

    def edit(folder: Path) -> None:
        file = folder / path
        config = json.loads(file.read_text()) if file.is_file() else {}
        config |= values
        file.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))

    return edit


def write(path: str, text: str) -> Edit:
    return lambda folder: (folder / path).write_text(text)


def remove(pattern: str) -> Edit:
    def edit(folder: Path) -> None:
        files = list(folder.glob(pattern))
        assert files
        for file in files:
            file.unlink()

    return edit


def modules(*names: str) -> Edit:
    """Lists modules by the paths they have in the good folder, or by type where a dot is in the name."""
    paths = {"Transformer": "", "WeightedLayerPooling": "1_WeightedLayerPooling", "Pooling": "2_Pooling"}
    paths |= {"Dense": "3_Dense", "Normalize": "5_Normalize"}

    def entry(name: str) -> dict[str, str]:
        path = paths.get(name.rsplit(".", 1)[-1], "2_Pooling")
        return {"path": path, "type": name if "." in name else f"sentence_transformers.models.{name}"}

    return write("modules.json", json.dumps([entry(name) for name in names]))


def weights(path: str, **tensors: torch.Tensor) -> Edit:
    from safetensors.torch import save_file

    return lambda folder: save_file(tensors, folder / path / "model.safetensors")


GOOD_POOLING, GOOD_DENSE, LAYERS = "2_Pooling/config.json", "3_Dense/config.json", "1_WeightedLayerPooling"
TEXT = {"method": "forward", "method_output_name": "last_hidden_state"}

POOLING_CASES: dict[str, tuple[Edit, str]] = {
    "unknown mode": (put(GOOD_POOLING, pooling_mode="median"), "pooling median is not supported"),
    "two new modes": (put(GOOD_POOLING, pooling_mode=["cls", "max"]), "pooling cls + max is not supported"),
    "uneven layers": (weights(LAYERS, layer_weights=torch.tensor([0.0, 1.0, 0.0, 2.0])), "this weighting of layers"),
    "no layer weights": (remove(f"{LAYERS}/model.safetensors"), "model.safetensors is missing"),
}
CASES: dict[str, tuple[Edit, str]] = {
    "foreign type": (modules("custom_st.Transformer", "Pooling"), "module custom_st.Transformer is not supported"),
    "two poolings": (modules("Transformer", "Pooling", "Pooling"), r"\(Pooling after Pooling\)"),
    "residual": (put(GOOD_DENSE, use_residual=True), "weights do not fit config.json .*residual.weight"),
    "no size": (put(GOOD_DENSE, in_features=None), "in_features is None"),
    "chain": (modules("Transformer", "Pooling", "Dense", "Dense"), "takes 32 features but is given 8"),
    "normalized tokens": (
        put("5_Normalize/config.json", module_input_name="token_embeddings"),
        "module_input_name = token_embeddings is",
    ),
    "unknown prompt": (
        put("config_sentence_transformers.json", default_prompt_name="passage"),
        "'passage' is not among the prompts",
    ),
    "task": (put("sentence_bert_config.json", transformer_task="fill-mask"), "transformer_task = 'fill-mask' is not"),
    "other method": (
        put("sentence_bert_config.json", modality_config={"text": TEXT | {"method": "get_text_features"}}),
        "only text as it is",
    ),
}


def edited(good: Path, folder: Path, edit: Edit) -> Path:
    shutil.copytree(good, folder)
    edit(folder)
    return folder


def check_refused(folder: Path, message: str) -> None:
    with pytest.raises(UserError, match=message.replace(" + ", r" \+ ")) as caught:
        SentenceEncoder.load(folder, device="cpu")
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("case", list(CASES))
def test_refused(case: str, good: Path, tmp_path: Path) -> None:
    edit, message = CASES[case]
    check_refused(edited(good, tmp_path / "model", edit), message)


@pytest.mark.slow
@pytest.mark.parametrize("case", list(POOLING_CASES))
def test_an_unsupported_pooling_is_refused_unless_another_is_chosen(case: str, good: Path, tmp_path: Path) -> None:
    edit, message = POOLING_CASES[case]
    folder = edited(good, tmp_path / "model", edit)
    check_refused(folder, message)
    encoder = SentenceEncoder.load(folder, pooling="cls", device="cpu")
    assert encoder.pooling is Pooling.CLS
    assert encoder.encode(["a"]).shape == (1, 4)


TEXTS = ["A dog.", "It rains."]


def refused_by_name(folder: Path | str) -> str:
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
def bert_copy(bert: Path, tmp_path: Path) -> Path:
    folder = shutil.copytree(bert, tmp_path / "copy")
    assert SentenceEncoder.load(folder, device="cpu").encode(TEXTS).shape == (2, 16)
    return folder


class Touch:
    """Pickled as a call that makes a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return Path.touch, (self.file,)


def test_a_pickled_weights_file(bert_copy: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    expected, state = (
        SentenceEncoder.load(bert_copy, device="cpu").encode(TEXTS),
        load_file(bert_copy / "model.safetensors"),
    )
    (bert_copy / "model.safetensors").unlink()
    weights, ran = bert_copy / "pytorch_model.bin", tmp_path / "ran"

    def save(what: object) -> bytes:
        torch.save(what, weights)
        return weights.read_bytes()

    whole = save(state)
    assert np.array_equal(SentenceEncoder.load(bert_copy, device="cpu").encode(TEXTS), expected)
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
        assert refused_by_name(bert_copy).startswith(f"{weights}: is damaged, or holds more than tensors by name")
    assert not ran.exists()


@pytest.mark.parametrize(
    "config",
    [
        "{",
        '{"model_type": "unheard-of"}',
        '{"model_type": "bert", "hidden_size": "x"}',
    ],
)
def test_a_broken_configuration(bert_copy: Path, config: str) -> None:
    (bert_copy / "config.json").write_text(config)
    assert str(bert_copy) in refused_by_name(bert_copy)


def test_code_in_the_folder_is_not_run(bert_copy: Path) -> None:
    config = '{"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config", "AutoModel": "mine.Model"}}'
    (bert_copy / "config.json").write_text(config)
    (bert_copy / "mine.py").write_text("raise SystemExit('was run')")
    refused_by_name(bert_copy)


def test_a_hub_id_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    name = "nobody/no-such-model"
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    message = refused_by_name(name)
    assert message.startswith(f"{name}: neither a folder here nor a model that could be fetched from the Hub (")
    assert "opencse-mini" in message


def test_weights_that_are_missing_or_do_not_fit_are_named(bert_copy: Path) -> None:
    from safetensors.torch import load_file, save_file

    file = bert_copy / "model.safetensors"
    weights, name = load_file(file), "encoder.layer.1.output.dense.weight"
    expected = SentenceEncoder.load(bert_copy, device="cpu").encode(TEXTS)
    pooler = {**weights, "pooler.dense.weight": torch.zeros(3, 3)}
    save_file(pooler, file, metadata={"format": "pt"})
    assert np.array_equal(SentenceEncoder.load(bert_copy, device="cpu").encode(TEXTS), expected), (
        "the pooler is not used"
    )
    save_file({**weights, name: torch.zeros(3, 3)}, file, metadata={"format": "pt"})
    assert name in refused_by_name(bert_copy)
    save_file({key: tensor for key, tensor in weights.items() if key != name}, file, metadata={"format": "pt"})
    message = refused_by_name(bert_copy)
    assert "1 weights of BertModel are missing" in message
    assert name in message
    file.unlink()
    assert "no transformers model can be loaded" in refused_by_name(bert_copy)


@pytest.fixture
def tiny_copy(tiny_folder: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny_folder, tmp_path / "model")


def change_entries(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def refused_soon(folder: Path) -> str:
    begun = time.process_time()
    with pytest.raises(UserError) as caught:
        SentenceEncoder.load(folder, device="cpu")
    assert "\n" not in str(caught.value)
    assert time.process_time() - begun < 10
    return str(caught.value)


def shard(folder: Path, name: str, *, binary: bool = False) -> Path:
    """Puts the weights into the file ``name``, which an index in ``folder`` names."""
    state = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    file = folder / name
    if binary:
        torch.save(state, file)
    else:
        save_file(state, file, metadata={"format": "pt"})
    index = folder / ("pytorch_model.bin.index.json" if binary else "model.safetensors.index.json")
    index.write_text(json.dumps({"metadata": {}, "weight_map": dict.fromkeys(state, name)}))
    return index


@pytest.mark.parametrize("binary", [False, True])
def test_weights_outside_the_folder_are_refused(tiny_copy: Path, binary: bool) -> None:
    (tiny_copy.parent / "other").mkdir()
    outside = [
        "../other/model.safetensors",
        str(tiny_copy.parent / "other/model.safetensors"),
        "a/../../b",
        "..\\b",
        "C:\\b",
    ]
    index = shard(tiny_copy, "weights-1", binary=binary)
    before = json.loads(index.read_text())["weight_map"]
    for name in [*outside, "", 3, None, "a\x00b"]:
        index.write_text(json.dumps({"weight_map": {**before, "cls.predictions.bias": name}}))
        message = refused_soon(tiny_copy)
        assert message.startswith(f"{index}: weight_map of cls.predictions.bias is {name!r}")
        assert f"the name of a file inside {tiny_copy} was expected" in message
    index.write_text(json.dumps({"weight_map": ["a"]}))
    assert f"{index}: weight_map is no JSON object" in refused_soon(tiny_copy)
    index.unlink()
    change_entries(tiny_copy / "config.json", transformers_weights="../other/model.safetensors")
    assert "transformers_weights is '../other/model.safetensors'" in refused_soon(tiny_copy)
