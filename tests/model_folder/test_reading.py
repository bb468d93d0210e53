"""A folder with one wrong value is refused in one line that names the file and the key."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from helpers import json_in
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.dense import Dense
from opencse.modules.pooling import Pooling
from opencse.modules.prompts import Prompts

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
        config = json_in(file) if file.is_file() else {}
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


def shorten(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-10])


def add_tokens(folder: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens([f"new{i}" for i in range(40)])
    tokenizer.save_pretrained(folder)


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
SENTENCE, PROMPTS = "sentence_bert_config.json", "config_sentence_transformers.json"
TEXT = {"method": "forward", "method_output_name": "last_hidden_state"}

POOLING_CASES: dict[str, tuple[Edit, str]] = {
    "unknown mode": (put(GOOD_POOLING, pooling_mode="median"), "pooling median is not supported"),
    "two new modes": (put(GOOD_POOLING, pooling_mode=["cls", "max"]), "pooling cls + max is not supported"),
    "uneven layers": (weights(LAYERS, layer_weights=torch.tensor([0.0, 1.0, 0.0, 2.0])), "this weighting of layers"),
    "no layer weights": (remove(f"{LAYERS}/model.safetensors"), "model.safetensors is missing"),
}
CASES: dict[str, tuple[Edit, str]] = {
    "a length in words": (put(SENTENCE, max_seq_length="many"), "max_seq_length is 'many'"),
    "a list of prompts": (put(PROMPTS, prompts=["query: "]), r"prompts is \['query: '\]"),
    "a number as name": (put(PROMPTS, default_prompt_name=3), "default_prompt_name is 3"),
    "words for a bool": (put(GOOD_POOLING, include_prompt="no"), "include_prompt is 'no'"),
    "no JSON": (write(SENTENCE, ""), f"{SENTENCE}.*not valid JSON"),
    "a list": (write(GOOD_DENSE, "[3]"), "a JSON object was expected"),
    "nested without end": (write("modules.json", "[" * 100_000), "modules.json"),
    "a module elsewhere": (write("modules.json", json.dumps([{"type": "a.Transformer", "path": "../b"}])), "path is"),
    "a short file": (lambda folder: shorten(folder / "3_Dense" / "model.safetensors"), "3_Dense"),
    "other weights": (weights("3_Dense", **{"linear.weight": torch.zeros(8, 5)}), "3_Dense"),
    "no folder": (lambda folder: shutil.rmtree(folder / "3_Dense"), "names the Dense module in 3_Dense, but there"),
    "more ids than rows": (add_tokens, r"the tokenizer has \d+ ids, the embedding \d+ rows"),
    "foreign type": (modules("custom_st.Transformer", "Pooling"), "modules custom_st.Transformer Pooling are not supp"),
    "two poolings": (modules("Transformer", "Pooling", "Pooling"), "modules Transformer Pooling Pooling are not"),
    "residual": (put(GOOD_DENSE, use_residual=True), "the weights do not fit config.json .*residual.weight"),
    "no size": (put(GOOD_DENSE, in_features=None), "in_features"),
    "a size that no memory holds": (put(GOOD_DENSE, out_features=10**18), "takes 8 features but is given 1000000"),
    "chain": (modules("Transformer", "Pooling", "Dense", "Dense"), "takes 32 features but is given 8"),
    "normalized tokens": (
        put("5_Normalize/config.json", module_input_name="token_embeddings"),
        "module_input_name = 'token_embeddings' is",
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


@pytest.mark.slow
@pytest.mark.parametrize("case", [*CASES, *POOLING_CASES])
def test_a_folder_with_one_fault_is_refused_in_a_line(case: str, good: Path, tmp_path: Path) -> None:
    edit, message = (CASES | POOLING_CASES)[case]
    folder = edited(good, tmp_path / "model", edit)
    with pytest.raises(UserError, match=message.replace(" + ", r" \+ ")) as caught:
        SentenceEncoder.load(folder, device="cpu")
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)
    if case in POOLING_CASES:  # another one may be chosen
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
        message = refused_by_name(bert_copy)
        assert message.startswith((f"{bert_copy}: no transformers model", f"{weights}: is damaged, or holds more than"))
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
