"""A model whose weights are NaN, infinite or zero is refused by every command that makes vectors."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import opencse
from helpers import Heard, write_lines
from opencse.encoder import first_look as module
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError

VALUES = {"nan": float("nan"), "zero": 0.0}


@pytest.fixture(scope="module", params=["nan", "zero"])
def damaged(request: pytest.FixtureRequest, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = shutil.copytree(tiny_folder, tmp_path_factory.mktemp(request.param) / "model")
    state = load_file(folder / "model.safetensors")
    filled = {name: torch.full_like(tensor, VALUES[request.param]) for name, tensor in state.items()}
    save_file(filled, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def _text(folder: Path) -> Path:
    path = folder / "text.txt"
    path.write_text("".join(f"The sentence number {n} of a text with {n % 7} words.\n" for n in range(60)))
    return path


# What the hostile table has not: tests/hostile/test_files.py, test_index.py.
COMMANDS: dict[str, Callable[[str, Path], object]] = {
    "encode --out FOLDER": lambda model, out: opencse.encode(model, _text(out), out=out / "vectors"),
    "export onnx": lambda model, out: opencse.export_onnx(model, out / "onnx"),
    "serve": lambda model, out: _serve(model),
}


def _serve(model: str) -> None:
    from opencse.serving.guard import Metrics
    from opencse.serving.requests import Limits
    from opencse.serving.served_model import ServedModel

    ServedModel("m", SentenceEncoder.load(model, device="cpu"), Limits(), Metrics())


@pytest.mark.filterwarnings("error::RuntimeWarning")  # numpy's, which would come before the line of the error
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_a_damaged_model(damaged: Path, command: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        COMMANDS[command](str(damaged), tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    assert "NaN" in message or "zero vector" in message
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if path.suffix in (".npy", ".f32", ".onnx") and path.stat().st_size > 128]


FOUR_TEXTS = ["A cat sleeps on the mat.", "Rain falls.", "The kettle boils.", "A dog barks at night."]
FAST = "opencse.kernels.precision.fast_bf16"


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FAST, lambda: (True, "this CPU is fast"))


@pytest.mark.usefixtures("fast")
def test_encode_says_what_it_chose(encoder: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST_COSINE", 0.99)
    heard, file, out = Heard(), tmp_path / "texts.txt", tmp_path / "vectors.npy"
    write_lines(file, FOUR_TEXTS)
    opencse.encode(encoder, file, out, precision="auto", progress=heard)
    assert sum(line.startswith("precision  bf16 (auto: this CPU is fast") for line in heard.said) == 1
    np.testing.assert_array_equal(np.load(out), encoder.encode(FOUR_TEXTS, precision="bf16"))
