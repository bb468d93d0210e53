"""Every recipe trains, moves the weights, and continues after a stop as if it had never stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from helpers import Broken, resumed_is_whole
from opencse.recipes.files import recipe_names
from opencse.recipes.recipe import load_recipe
from opencse.runs.run import Run
from steps import SMALL, also_for, layers_of, text_for

pytestmark = pytest.mark.slow

STEPS, STOP = 4, 3
SETTINGS = (
    "training.epochs=10",
    f"training.max_steps={STEPS}",
    "training.batch_size=8",
    "training.evaluate_every=100",
    "training.checkpoint_every=2",
    "training.log_every=1",
    "training.learning_rate=1e-3",
    "training.precision=float32",
)


def words_of(folder: Path) -> torch.Tensor:
    """The word embeddings of a folder."""
    tensors = load_file(folder / "model.safetensors")
    words: torch.Tensor = next(t for name, t in tensors.items() if name.endswith("embeddings.word_embeddings.weight"))
    return words


@pytest.mark.parametrize("name", recipe_names())
def test_resumed_is_uninterrupted(name: str, tiny_folder: Path, tmp_path: Path, sentences: list[str]) -> None:
    settings: tuple[str, ...] = (
        *SETTINGS,
        *SMALL.get(name, ()),
        layers_of(name),
        f"data.max_length={60 if load_recipe(name).encoder.template else 32}",
    )
    if load_recipe(name).training.batch_tokens is not None:
        settings = (*settings, "training.batch_tokens=200")
    job = Run(
        text=text_for(name, tmp_path, sentences),
        recipe=name,
        model=str(tiny_folder),
        settings=settings,
        dev=None,
        also=also_for(name, sentences),
    )
    whole = resumed_is_whole(job, tmp_path, Broken(STOP))  # a step is lost, and is made again
    lines = [json.loads(line) for line in whole["metrics.jsonl"].splitlines()]
    assert [line["step"] for line in lines if "loss" in line] == list(range(1, STEPS + 1))
    assert len({line["loss"] for line in lines if "loss" in line}) > STEPS // 2
    before, after = words_of(tiny_folder), words_of(tmp_path / "whole")
    if load_recipe(name).encoder.template is not None:
        after = after[: len(before)]  # the saved template has a token of its own, and this backbone no rows to spare
    assert before.shape == after.shape
    assert torch.equal(before, after) is load_recipe(name).encoder.freeze_embeddings
