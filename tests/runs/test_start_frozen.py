"""Embeddings that are left as they are while the layers are trained."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from opencse.errors import UserError
from opencse.progress import Silent
from opencse.recipes.recipe import load_recipe
from opencse.runs.job import TrainJob
from opencse.runs.start import build_encoder
from opencse.text.readers import Source


def test_frozen_embeddings_stay_and_layers_move(tiny_folder: Path, tmp_path: Path, sentences: list[str]) -> None:
    (tmp_path / "text.txt").write_text("\n".join(sentences[:16]))
    settings = ("encoder.freeze_embeddings=true", "training.max_steps=2", "training.batch_size=8", "data.max_length=16")
    job = TrainJob(
        text=Source(str(tmp_path / "text.txt")), recipe="simcse", model=str(tiny_folder), settings=settings, dev=None
    )
    made = job.prepare(Silent())
    assert made.plan.trained < made.plan.parameters
    start = build_encoder(load_recipe("simcse"), str(tiny_folder), "cpu")
    job.run(tmp_path / "out")
    trained = build_encoder(load_recipe("simcse"), str(tmp_path / "out"), "cpu")
    moved = {
        name: not torch.equal(weights, dict(trained.backbone.named_parameters())[name])
        for name, weights in start.backbone.named_parameters()
    }
    assert {name.startswith("embeddings.") for name, has_moved in moved.items() if not has_moved} == {True}
    assert all(not has_moved for name, has_moved in moved.items() if name.startswith("embeddings."))


def test_embeddings_alone_cannot_be_frozen() -> None:
    recipe = load_recipe("simcse", preset="opencse-mini", overrides=["encoder.freeze_embeddings=true"])
    with pytest.raises(UserError, match=r"opencse-mini: has embeddings alone, .* nothing would be trained"):
        build_encoder(recipe, "opencse-mini", "cpu")
