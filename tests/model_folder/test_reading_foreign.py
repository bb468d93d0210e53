"""Folders that say what is not supported here are refused in one line, never opened as something else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.reading import has_own_pooling
from opencse.modules.dense import Dense
from opencse.modules.pooling import Pooling
from opencse.modules.prompts import Prompts, Role

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


POOLING, DENSE, LAYERS = "2_Pooling/config.json", "3_Dense/config.json", "1_WeightedLayerPooling"
NO_FLAG = {"pooling_mode_mean_tokens": False}
TEXT = {"method": "forward", "method_output_name": "last_hidden_state"}

POOLING_CASES: dict[str, tuple[Edit, str]] = {
    "layers of weightedmean": (
        put(POOLING, **NO_FLAG, pooling_mode_weightedmean_tokens=True),
        "this weighting of layers",
    ),
    "unknown mode": (put(POOLING, pooling_mode="median"), "pooling median is not supported"),
    "two new modes": (put(POOLING, pooling_mode=["cls", "max"]), "pooling cls + max is not supported"),
    "no mode": (put(POOLING, **NO_FLAG), "pooling none is not supported"),
    "layers of cls": (put(POOLING, pooling_mode="cls"), "this weighting of layers"),
    "uneven layers": (weights(LAYERS, layer_weights=torch.tensor([0.0, 1.0, 0.0, 2.0])), "this weighting of layers"),
    "all layers": (weights(LAYERS, layer_weights=torch.ones(4)), "this weighting of layers"),
    "no layer weights": (remove(f"{LAYERS}/model.safetensors"), "model.safetensors is missing"),
}
CASES: dict[str, tuple[Edit, str]] = {
    "foreign type": (modules("custom_st.Transformer", "Pooling"), "module custom_st.Transformer is not supported"),
    "two poolings": (modules("Transformer", "Pooling", "Pooling"), r"\(Pooling after Pooling\)"),
    "no pooling": (modules("Transformer"), "lacks a Transformer or a Pooling"),
    "no transformer": (modules("Pooling"), "lacks a Transformer or a Pooling"),
    "no modules": (write("modules.json", "[]"), "lacks a Transformer or a Pooling"),
    "an object": (write("modules.json", "{}"), "a list of objects with type and path"),
    "broken modules": (write("modules.json", "[\n{]"), "modules.json, line 2: not valid JSON"),
    "residual": (put(DENSE, use_residual=True), "weights do not fit config.json .*residual.weight"),
    "dense elsewhere": (put(DENSE, module_output_name="other"), "module_output_name = other is not"),
    "no size": (put(DENSE, in_features=None), "config.json lacks in_features"),
    "other size": (put(DENSE, out_features=9), "the weights do not fit config.json"),
    "chain": (modules("Transformer", "Pooling", "Dense", "Dense"), "takes 32 features but is given 8"),
    "normalized tokens": (
        put("5_Normalize/config.json", module_input_name="token_embeddings"),
        "module_input_name = token_embeddings is",
    ),
    "unknown prompt": (
        put("config_sentence_transformers.json", default_prompt_name="passage"),
        "'passage' is not among the prompts",
    ),
    "task": (put("sentence_bert_config.json", transformer_task="fill-mask"), "transformer_task = fill-mask is not"),
    "output": (put("sentence_bert_config.json", module_output_name="scores"), "module_output_name = scores is not"),
    "other method": (
        put("sentence_bert_config.json", modality_config={"text": TEXT | {"method": "get_text_features"}}),
        "only text as it is",
    ),
    "processing": (
        put("sentence_bert_config.json", processing_kwargs={"text": {"max_length": 5}}),
        "processing_kwargs",
    ),
}


def broken(good: Path, folder: Path, edit: Edit) -> Path:
    shutil.copytree(good, folder)
    edit(folder)
    return folder


def check_refused(folder: Path, message: str) -> None:
    with pytest.raises(UserError, match=message.replace(" + ", r" \+ ")) as caught:
        SentenceEncoder.load(folder, device="cpu")
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)


def test_the_good_folder_opens(good: Path) -> None:
    encoder = SentenceEncoder.load(good, device="cpu")
    assert encoder.pooling is Pooling.FIRST_LAST_1
    assert encoder.dimension == 4
    assert encoder.normalize
    assert encoder.prompts == Prompts({"default": "query: "}, "default")
    assert encoder.encode(["a", "b"]).shape == (2, 4)


@pytest.mark.slow
@pytest.mark.parametrize("case", list(CASES))
def test_refused(case: str, good: Path, tmp_path: Path) -> None:
    edit, message = CASES[case]
    check_refused(broken(good, tmp_path / "model", edit), message)


@pytest.mark.slow
@pytest.mark.parametrize("case", list(POOLING_CASES))
def test_an_unsupported_pooling_is_refused_unless_another_is_chosen(case: str, good: Path, tmp_path: Path) -> None:
    edit, message = POOLING_CASES[case]
    folder = broken(good, tmp_path / "model", edit)
    check_refused(folder, message)
    encoder = SentenceEncoder.load(folder, pooling="cls", device="cpu")
    assert encoder.pooling is Pooling.CLS
    assert encoder.encode(["a"]).shape == (1, 4)


def test_an_empty_default_prompt_is_no_prompt(good: Path, tmp_path: Path) -> None:
    edit = put("config_sentence_transformers.json", prompts={"default": ""})
    folder = broken(good, tmp_path / "model", edit)
    put(POOLING, include_prompt=False)(folder)
    assert SentenceEncoder.load(folder, device="cpu").prompts.of(Role.PLAIN) == ""


def test_who_says_how_to_pool(good: Path, tiny_folder: Path) -> None:
    assert has_own_pooling(good)
    assert has_own_pooling("opencse-mini")
    assert not has_own_pooling(tiny_folder)
