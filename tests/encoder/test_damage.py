"""A model whose weights are NaN, infinite or zero is refused by every command that makes vectors."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import opencse
from helpers import write_small_sts
from opencse.encoder.damage import DamagedVectorError, require_sound_vectors
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError

TEXTS = ["A dog barks.", "It rains.", "The sun is warm."]
VALUES = {"nan": float("nan"), "inf": float("inf"), "zero": 0.0}


@pytest.fixture(scope="module", params=list(VALUES))
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


COMMANDS: dict[str, Callable[[str, Path], object]] = {
    "similarity": lambda model, out: opencse.similarity(model, TEXTS[0], TEXTS),
    "encode": lambda model, out: opencse.encode(model, TEXTS),
    "encode --out": lambda model, out: opencse.encode(model, _text(out), out=out / "v.npy"),
    "encode --out FOLDER": lambda model, out: opencse.encode(model, _text(out), out=out / "vectors"),
    "nearest": lambda model, out: opencse.nearest(model, _text(out), ["a dog"], cache=False),
    "index build": lambda model, out: opencse.build_index(out / "index", model, _text(out)),
    "evaluate": lambda model, out: opencse.evaluate(model, write_small_sts(out / "sts"), "sts"),
    "calibrate": lambda model, out: opencse.calibrate(model, _text(out)),
    "whiten": lambda model, out: opencse.whiten(model, _text(out), out / "white"),
    "export onnx": lambda model, out: opencse.export_onnx(model, out / "onnx"),
    "export static": lambda model, out: opencse.export_static(model, out / "static"),
    "serve": lambda model, out: _serve(model),
}


def _serve(model: str) -> None:
    from opencse.serving.limits import Limits
    from opencse.serving.metrics import Metrics
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


def test_a_zero_vector_of_one_text_is_no_damage(tiny_folder: Path) -> None:
    encoder = SentenceEncoder.load(tiny_folder, device="cpu")
    require_sound_vectors(encoder, np.zeros((2, 32), dtype=np.float32), ["", ""])
    require_sound_vectors(encoder, np.zeros((0, 32), dtype=np.float32))
    with pytest.raises(DamagedVectorError, match="the vector of 'b' holds NaN or infinity; the weights") as caught:
        require_sound_vectors(encoder, np.array([[0.0], [np.nan]], dtype=np.float32), ["a", "b"])
    assert caught.value.row == 1
    assert pickle.loads(pickle.dumps(caught.value)).row == 1
    with pytest.raises(DamagedVectorError, match="try precision float32"):
        require_sound_vectors(encoder, np.array([[np.inf]], dtype=np.float32), bf16=True)
