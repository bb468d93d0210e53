"""Starts that a run writes: each is written as it is, and a run does not continue with another one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import fingerprint
from opencse.errors import UserError
from opencse.making.backbone import Shape
from opencse.progress import Silent
from opencse.runs.new_start import GivenEncoder, NewBackbone, NewStart, RenewedBackbone
from opencse.text.given import open_texts


def written(start: NewStart, folder: Path) -> Path:
    texts = [f"Lamp {number} is lit, and the room is warm." for number in range(40)]
    start.write(open_texts(texts), folder, 0, Silent())
    return folder


def test_an_encoder_object_is_copied(encoder: SentenceEncoder, tmp_path: Path) -> None:
    folder = written(GivenEncoder(encoder), tmp_path / "start")
    assert fingerprint(SentenceEncoder.load(folder, device="cpu")) == fingerprint(encoder)
    GivenEncoder(encoder).require_same(folder)
    other = encoder.twin()
    with torch.no_grad():
        next(other.parameters()).add_(1.0)
    with pytest.raises(UserError, match="the run began with another encoder"):
        GivenEncoder(other).require_same(folder)


def test_a_model_with_new_layers_keeps_its_words(tiny_folder: Path, tmp_path: Path) -> None:
    start = RenewedBackbone(str(tiny_folder), new_layers=1)
    folder = written(start, tmp_path / "start")
    start.require_same(folder)
    backbone = written(NewBackbone(120, Shape(layers=1, hidden=32, heads=2, inner=64, positions=32)), tmp_path / "new")
    with pytest.raises(UserError, match="the run began with another model"):
        start.require_same(backbone)


def test_a_run_continues_with_any_new_backbone_it_began_with(tmp_path: Path) -> None:
    shape = Shape(layers=1, hidden=32, heads=2, inner=64, positions=32)
    folder = written(NewBackbone(120, shape), tmp_path / "start")
    NewBackbone(140, shape).require_same(folder)
    assert SentenceEncoder.load(folder, pooling="mean", device="cpu").depth == 1
