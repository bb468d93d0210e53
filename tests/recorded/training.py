"""The first steps of every recipe, and of the presets whose parts no recipe has as it stands."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal

from safetensors.torch import load_file

import opencse
from helpers import filled, rows_in
from opencse.objective.objective import Objective
from opencse.recipes.files import recipe_names
from opencse.recipes.recipe import load_recipe
from opencse.text import sample
from steps import SMALL, write_documents

STEPS, STEPS_OF_PRESETS = 20, 5
ROWS = 100
SETTINGS = (
    "training.epochs=10",
    "training.batch_size=8",
    "training.evaluate_every=100",
    "training.checkpoint_every=100",
    "training.log_every=1",
    "training.learning_rate=1e-3",
    "training.precision=float32",
    "data.max_length=32",
)

PRESETS = (
    "angle:in-batch",
    "dclr:reference",
    "diffcse:reference",
    "diffcse:simcse++",
    "esimcse:reference",
    "esimcse:stop-words",
    "esimcse:mask",
    "esimcse:words",
    "gaussian-sampling:covariance",
    "gaussian-sampling:memory-bank",
    "gaussian-sampling:noisy-anchor",
    "gaussian-sampling:count-2x",
    "gaussian-sampling:vae",
    "gaussian-sampling:gmm",
    "input-noise:gaussian-dropout",
    "input-noise:bernoulli",
    "input-noise:features",
    "input-noise:fgsm",
    "next-sentence:window-3-two-encoders",
    "output-noise:bernoulli",
    "output-noise:mask-smallest",
    "output-noise:mask-largest",
    "output-noise:fgsm",
    "simcse:crop-10",
    "simcse:delete-words-30",
    "simcse:delete-one-word-two-encoders",
    "simcse:dropout-fixed-0.1",
    "simcse:first-last",
    "simcse:label-smoothing",
    "simcse:mlm-0.1",
    "simcse:mlm-substitute-15",
    "simcse++:reference",
    "simcse++-dcl:barlow-twins-100",
    "simcse++-off-dropout:positives-more-noise",
    "simcse++-off-dropout:negatives-less-noise",
    "simcse-supervised:reference",
    "simcse-supervised:dot-product",
    "sscl:reference",
    "weight-perturbation:fgsm-inputs",
    "weight-perturbation:gaussian-inputs",
    "weight-perturbation:sam",
)
JUDGED = ("adapt", "simcse", "simcse-supervised")
"""Recorded with the dev scores of the start and of the last step, too."""
ACCUMULATED = ("simcse", "esimcse", "gaussian-sampling:memory-bank")
"""Recorded a second time with two batches a step."""


def runs() -> dict[str, tuple[str, int, tuple[str, ...]]]:
    """Every run by name: the recipe with its presets, its steps and its settings."""
    made = {name: (name, STEPS, (*SETTINGS, *SMALL.get(name, ()))) for name in recipe_names()}
    made |= {name: (name, STEPS_OF_PRESETS, SETTINGS) for name in PRESETS}
    twice = (*SETTINGS, "training.accumulate=2")
    return made | {f"{name}, accumulated": (name, STEPS_OF_PRESETS, twice) for name in ACCUMULATED}


def record_run(name: str, model: Path, folder: Path) -> dict[str, Any]:
    """What metrics.jsonl says of the run, a list of each key's values by step; a hash of its last weights."""
    recipe, steps, settings = runs()[name]
    loaded = load_recipe(recipe)
    sentences = filled(sample.TRAIN)
    rows: Any = sentences[:ROWS]
    if loaded.objective.view.kind == "pair":
        rows = [(sentences[i], sentences[i + ROWS], sentences[i + 2 * ROWS]) for i in range(ROWS)]
    label = Objective.from_settings(loaded.objective).label
    if label is not None:
        texts = 3 if label == "margin" else 2
        rows = [(*sentences[i : i + ROWS * texts : ROWS], i % 3) for i in range(ROWS)]
    settings = (*settings, f"training.max_steps={steps}")
    text: Any = rows
    if loaded.objective.view.kind == "spans":
        text = str(write_documents(folder.with_name(f"{folder.name}.txt"), sentences, documents=ROWS // 5))
    if loaded.encoder.template is not None:
        settings = (*settings, "data.max_length=56")  # the tiny vocabulary has many pieces for a template
    if loaded.training.batch_tokens is not None:
        settings = (*settings, "training.batch_tokens=200")
    dev: Literal["sample"] | None = "sample" if name in JUDGED else None
    also = [sentences[-ROWS:] for _ in loaded.datasets or ()]
    opencse.train(text, folder, recipe=recipe, model=model, settings=settings, dev=dev, device="cpu", also=also)
    records: list[dict[str, Any]] = rows_in(folder / "metrics.jsonl")
    columns: dict[str, dict[int, float]] = {}
    for one in records:
        for key, value in one.items():
            columns.setdefault(key, {})[one["step"]] = value
    del columns["step"]
    found: dict[str, Any] = {key: [by_step.get(s) for s in range(steps + 1)] for key, by_step in columns.items()}
    return found | {"weights": hash_of_weights(folder / "last")}


def hash_of_weights(folder: Path) -> str:
    """SHA-256 of all tensors in a folder's safetensors files, by name."""
    digest = hashlib.sha256()
    files = sorted(folder.rglob("*.safetensors"))
    if not files:
        raise FileNotFoundError(f"{folder}: no weights")
    for file in files:
        for name, tensor in sorted(load_file(file).items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()
