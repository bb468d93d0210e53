"""Tensors of a safetensors file as arrays in mapped memory: the library's own numbers, or one clear line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from opencse.errors import UserError
from opencse.model_folder.mapped_tensors import map_tensors

DTYPES = [
    getattr(torch, name) for name in ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8")
]


def test_every_format_is_read_as_the_library_does(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    tensors = {str(dtype): (7 * torch.rand(3, 2)).to(dtype) for dtype in DTYPES}
    tensors |= {"flags": torch.tensor([True, False]), "one": torch.tensor(2.5), "empty": torch.zeros(0, 4)}
    save_file(tensors, file, metadata={"format": "pt"})
    arrays = map_tensors(file)
    assert arrays.keys() == tensors.keys()
    for name, tensor in load_file(file).items():
        np.testing.assert_array_equal(arrays[name], tensor.numpy())
        assert arrays[name].dtype == tensor.numpy().dtype


def test_changed_arrays_leave_the_file_alone(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    save_file({"rows": torch.ones(4, 4)}, file)
    before = file.read_bytes()
    map_tensors(file)["rows"][1] = 0
    assert file.read_bytes() == before
    assert (map_tensors(file)["rows"] == 1).all()


def test_a_replaced_file_leaves_open_arrays_alone(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    save_file({"rows": torch.ones(4, 4)}, file)
    rows = map_tensors(file)["rows"]
    save_file({"rows": torch.zeros(2, 2)}, tmp_path / "new")
    (tmp_path / "new").replace(file)
    assert rows.shape == (4, 4)
    assert (rows == 1).all()


def test_a_format_that_numpy_lacks_is_refused_and_not_left_out(tmp_path: Path) -> None:
    save_file({"embeddings": torch.ones(2, 2), "weights": torch.ones(2, dtype=torch.bfloat16)}, tmp_path / "model")
    with pytest.raises(UserError, match="weights is in BF16"):
        map_tensors(tmp_path / "model")


def written(header: object, data: bytes = bytes(16), size: int | None = None) -> bytes:
    text = json.dumps(header).encode()
    return (len(text) if size is None else size).to_bytes(8, "little") + text + data


def one(**changes: object) -> dict[str, object]:
    return {"rows": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]} | changes}


BROKEN = {
    "empty": b"",
    "short": b"\x01\x02",
    "no JSON": (3).to_bytes(8, "little") + b"abc",
    "a header beyond the end": written(one(), size=10_000),
    "an enormous header": written(one(), size=2**63),
    "a list": written([1, 2]),
    "a tensor that is no object": written({"rows": 3}),
    "no offsets": written({"rows": {"dtype": "F32", "shape": [2, 2]}}),
    "three offsets": written(one(data_offsets=[0, 8, 16])),
    "beyond the end": written(one(data_offsets=[16, 32])),
    "before the start": written(one(data_offsets=[-16, 0])),
    "another size": written(one(shape=[2, 3])),
    "a negative shape": written(one(shape=[-2, -2])),
    "a shape of text": written(one(shape=["2", "2"])),
    "an unknown format": written(one(dtype="F8_E4M3")),
    "a format that is no text": written(one(dtype=["F32"])),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_file_is_refused_by_name(broken: str, tmp_path: Path) -> None:
    (tmp_path / "good").write_bytes(written(one()))
    assert map_tensors(tmp_path / "good")["rows"].shape == (2, 2)
    (tmp_path / "model.safetensors").write_bytes(BROKEN[broken])
    with pytest.raises(UserError, match=r"model\.safetensors: cannot be read \(.+\)"):
        map_tensors(tmp_path / "model.safetensors")


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere: cannot be read"):
        map_tensors(tmp_path / "nowhere")
