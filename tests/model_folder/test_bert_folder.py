"""BERTs that are read without torch, and what is left to the complete reader."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from layout_folders import write
from layouts import READ
from opencse.model_folder.bert_folder import read_bert
from opencse.model_folder.layout import TOKEN_WEIGHTS_TENSOR
from opencse.modules.pooling import Pooling


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(READ["all-MiniLM"], tmp_path / "model")


def change(name: str, **entries: Any) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / name
        stated = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        path.write_text(json.dumps(stated | entries), encoding="utf-8")

    return apply


def weights(edit: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        edit(tensors)
        save_file(tensors, folder / "model.safetensors")

    return apply


def test_the_parts(folder: Path) -> None:
    parts = read_bert(folder)
    assert parts is not None
    assert (parts.pooling, parts.common.normalize, parts.common.max_length, parts.network.depth) == (
        Pooling.MEAN,
        True,
        64,
        2,
    )
    with_heads = read_bert(folder, pooling="cls")
    assert with_heads is not None
    assert with_heads.pooling is Pooling.CLS


def test_a_plain_folder_is_averaged(folder: Path) -> None:
    (folder / "modules.json").unlink()
    for name in ("1_Pooling", "2_Normalize"):
        (folder / name).rename(folder / f"not-{name}")
    parts = read_bert(folder)
    assert parts is not None
    assert (parts.pooling, parts.common.normalize) == (Pooling.MEAN, False)


def test_half_precision_and_a_head_are_read(folder: Path) -> None:
    weights(
        lambda tensors: tensors.update(
            {f"bert.{name}": tensors.pop(name).astype(np.float16) for name in list(tensors)}
            | {"cls.predictions.bias": np.zeros(3, dtype=np.float32)}
        )
    )(folder)
    parts = read_bert(folder)
    assert parts is not None
    assert "cls.predictions.bias" not in parts.network.weights


UNUSUAL: dict[str, Callable[[Path], object]] = {
    "another activation": change("config.json", hidden_act="relu"),
    "another network": change("config.json", model_type="roberta"),
    "cross attention": change("config.json", add_cross_attention=True),
    "a decoder": change("config.json", is_decoder=True),
    "relative positions": change("config.json", position_embedding_type="relative_key"),
    "its own code": change("config.json", auto_map={"AutoModel": "x.Y"}),
    "heads that do not fit": change("config.json", num_attention_heads=5),
    "no layers": change("config.json", num_hidden_layers=0),
    "a layer without weights": change("config.json", num_hidden_layers=3),
    "adapters": change("adapter_config.json", peft_type="LORA"),
    "a template": change("config_sentence_transformers.json", template="One: {text}"),
    "truncated vectors": change("config_sentence_transformers.json", truncate_dim=8),
    "lower-casing": change("sentence_bert_config.json", do_lower_case=True),
    "arguments of the network": change("sentence_bert_config.json", config_kwargs={"num_hidden_layers": 1}),
    "another kind of model": change("config_sentence_transformers.json", model_type="SparseEncoder"),
    "another tokenizer": change("tokenizer_config.json", tokenizer_class="RobertaTokenizer"),
    "a missing bias": weights(lambda tensors: tensors.pop("encoder.layer.1.output.dense.bias")),
    "numbers of eight bits": weights(
        lambda tensors: tensors.update({"embeddings.LayerNorm.bias": np.zeros(32, dtype=np.int8)})
    ),
    "tensors with two names": weights(
        lambda tensors: tensors.update({f"bert.{name}": array + 1 for name, array in tensors.items()})
    ),
    "damaged weights": lambda folder: (folder / "model.safetensors").write_bytes(b"\x10" * 40),
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
}


@pytest.mark.parametrize("unusual", UNUSUAL)
def test_anything_unusual_is_left_to_the_complete_reader(unusual: str, folder: Path) -> None:
    assert read_bert(folder) is not None
    UNUSUAL[unusual](folder)
    assert read_bert(folder) is None


@pytest.mark.parametrize("changed", ["too few", "negative", "infinite", "by word", "left out of the mean"])
def test_weights_of_tokens_are_one_number_for_each_id(changed: str, tmp_path: Path) -> None:
    folder = write(READ["WordWeights"], tmp_path / "model")
    parts, file = read_bert(folder), folder / "1_WordWeights" / "model.safetensors"
    assert parts is not None
    assert parts.token_weights is not None
    numbers = parts.token_weights.copy()
    assert len(np.unique(numbers)) > 2
    if changed == "by word":
        file.unlink()
    elif changed == "left out of the mean":
        change("2_Pooling/config.json", include_prompt=False)(folder)
    else:
        numbers[-1] = {"too few": 0, "negative": -0.1, "infinite": np.inf}[changed]
        save_file({TOKEN_WEIGHTS_TENSOR: numbers[: 10 if changed == "too few" else None]}, file)
    assert read_bert(folder) is None
    with_first_token = read_bert(folder, pooling="cls")
    assert with_first_token is None or with_first_token.token_weights is None
