"""Folders in both directions between this library and sentence-transformers: the same vectors."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense as TheirDense,
)
from sentence_transformers.sentence_transformer.modules import (
    Normalize,
    Transformer,
    WeightedLayerPooling,
)
from sentence_transformers.sentence_transformer.modules import (
    Pooling as TheirPooling,
)

from helpers import json_in
from opencse.encoder.encoder import SentenceEncoder
from opencse.modules.dense import Dense
from opencse.modules.pooling import Pooling

pytestmark = pytest.mark.slow

STOCK = {
    f"sentence_transformers.models.{m}"
    for m in ("Transformer", "WeightedLayerPooling", "Pooling", "Dense", "Normalize")
}
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def texts(sentences: list[str]) -> list[str]:
    return [*sentences[:12], "", "Ünïcödé 漢字, and [MASK].", "one two three " * 60]


@pytest.fixture(scope="module")
def start(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model with weights so large that the vectors of different texts differ much."""
    from transformers import BertForMaskedLM

    folder = shutil.copytree(tiny_folder, tmp_path_factory.mktemp("start") / "model")
    model = BertForMaskedLM.from_pretrained(folder)
    generator = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.normal_(0.0, 0.3, generator=generator)
    model.save_pretrained(folder)
    return folder


def theirs(folder: Path, texts: list[str]) -> NDArray[np.float32]:
    """The vectors of the folder opened by sentence-transformers, which runs no code of the folder."""
    model = SentenceTransformer(str(folder), device="cpu", trust_remote_code=False)
    vectors = model.encode(texts, batch_size=4, show_progress_bar=False)
    return np.asarray(vectors, dtype=np.float32)


def ours(folder: Path, texts: list[str]) -> NDArray[np.float32]:
    return SentenceEncoder.load(folder, device="cpu").encode(texts)


def agree(a: NDArray[np.float32], b: NDArray[np.float32]) -> None:
    assert a.shape == b.shape
    assert np.abs(a - a[0]).max() > 1e-2, "the texts have different vectors"
    assert np.abs(a - b).max() < TOLERANCE


def kept_head(encoder: SentenceEncoder) -> None:
    encoder.dense.append(Dense.mlp_head(32, torch.Generator().manual_seed(1)))


def check_saved(encoder: SentenceEncoder, folder: Path, texts: list[str], dtype: torch.dtype) -> NDArray[np.float32]:
    """Both libraries open the saved folder with the same vectors; only stock modules are listed."""
    encoder.save(folder, dtype=dtype)
    listing = json_in(folder / "modules.json")
    assert {entry["type"] for entry in listing} <= STOCK
    modules = list(SentenceTransformer(str(folder), device="cpu").children())
    assert {type(module).__module__.split(".")[0] for module in modules} == {"sentence_transformers"}
    assert [type(module).__name__ for module in modules] == [entry["type"].rsplit(".", 1)[1] for entry in listing]
    loaded = ours(folder, texts)
    agree(loaded, theirs(folder, texts))
    return loaded


@pytest.mark.parametrize("pooling", [mode for mode in Pooling if mode is not Pooling.MASK])
def test_saved_folder_by_pooling(pooling: Pooling, start: Path, texts: list[str], tmp_path: Path) -> None:
    encoder = SentenceEncoder.load(start, pooling=pooling, device="cpu")
    assert np.array_equal(check_saved(encoder, tmp_path, texts, torch.float32), encoder.encode(texts))
    assert SentenceEncoder.load(tmp_path, device="cpu").pooling is pooling


def test_saved_folder_in_half_precision(start: Path, texts: list[str], tmp_path: Path) -> None:
    pooling = Pooling.FIRST_LAST_1
    from safetensors.torch import load_file

    encoder = SentenceEncoder.load(start, pooling=pooling, device="cpu")
    kept_head(encoder)
    exact = encoder.encode(texts)
    loaded = check_saved(encoder, tmp_path, texts, torch.float16)
    assert 1e-7 < np.abs(loaded - exact).max() < 0.01
    assert np.array_equal(encoder.encode(texts), exact), "saving does not change the encoder in memory"
    dense = next(tmp_path.glob("*_Dense"))
    for file in (tmp_path / "model.safetensors", dense / "model.safetensors"):
        assert {tensor.dtype for tensor in load_file(file).values()} == {torch.float16}
    opened = SentenceTransformer(str(tmp_path), device="cpu")
    assert {p.dtype for p in opened.parameters()} == {torch.float32}


# Written there, read here.


def transformer(folder: Path, **settings: Any) -> Transformer:
    return Transformer(str(folder), **settings)


def stack(name: str, folder: Path) -> list[Any]:
    torch.manual_seed(4)
    if name == "first-last":
        weights = torch.nn.Parameter(torch.tensor([1.0, 0.0, 0.0, 1.0]))
        layers = WeightedLayerPooling(32, num_hidden_layers=3, layer_start=0, layer_weights=weights)
        return [transformer(folder, config_kwargs={"output_hidden_states": True}), layers, TheirPooling(32, "mean")]
    if name == "weighting without hidden states":
        layers = WeightedLayerPooling(32, num_hidden_layers=3, layer_start=1)
        return [transformer(folder), layers, TheirPooling(32, "mean")]
    if name == "short":
        return [transformer(folder, max_seq_length=9), TheirPooling(32, "mean")]
    if name == "dense":
        gelu = TheirDense(32, 16, activation_function=torch.nn.GELU())
        identity = TheirDense(16, 8, bias=False, activation_function=torch.nn.Identity())
        return [transformer(folder), TheirPooling(32, "cls"), gelu, identity, Normalize()]
    return [transformer(folder), TheirPooling(32, name)]


STACKS = [
    "max",
    "lasttoken",
    "dense",
    "first-last",
    "weighting without hidden states",
]


@pytest.mark.parametrize("name", STACKS)
def test_folder_of_sentence_transformers(name: str, start: Path, texts: list[str], tmp_path: Path) -> None:
    model = SentenceTransformer(modules=stack(name, start), device="cpu")
    model.save(str(tmp_path), create_model_card=False)
    types = [entry["type"] for entry in json_in(tmp_path / "modules.json")]
    assert types[0] == "sentence_transformers.base.modules.transformer.Transformer", "the layout of release 6"
    agree(ours(tmp_path, texts), np.asarray(model.encode(texts, show_progress_bar=False)))
    agree(ours(tmp_path, texts), theirs(tmp_path, texts))
