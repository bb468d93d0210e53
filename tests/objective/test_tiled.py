"""The contrast made tile by tile against the dense one: losses, gradients, figures, and memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.head import Dense
from opencse.objective.negatives.momentum_queue import MomentumQueue
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.vectors.clean import Clean
from opencse.objective.vectors.layer import Layer
from opencse.objective.vectors.means import Means
from opencse.objective.vectors.step import Representations
from opencse.settings import validate

N, D, H = 12, 6, 2
IN_BATCH: dict[str, Any] = {"kind": "in_batch"}
HARD: dict[str, Any] = {"kind": "hard", "alpha": 2.5}
# What the objective's tables say, and the tensors that get a gradient.
OBJECTIVES: dict[str, dict[str, Any]] = {
    "in batch": {"negatives": [IN_BATCH]},
    "both views": {"negatives": [{**IN_BATCH, "columns": "positives_and_anchors", "weight": 0.3}]},
    "clean": {"negatives": [{**IN_BATCH, "of": {"kind": "clean"}, "weight": 2.0}]},
    "means": {"negatives": [{**IN_BATCH, "of": {"kind": "mean", "samples": 3, "shared": True}}]},
    "noisy sides": {"negatives": [{**IN_BATCH, "of": {"kind": "noisy"}}]},
    "positive of its own": {"negatives": [IN_BATCH], "positive": {"of": {"kind": "mean", "samples": 3}, "scale": 1.7}},
    "hard": {"negatives": [IN_BATCH, HARD]},
    "hard alone": {"negatives": [HARD]},
    "layers": {"negatives": [IN_BATCH, {"kind": "layers", "layers": [-2, 0], "weight": "batch"}]},
    "layers averaged": {"negatives": [IN_BATCH, {"kind": "layers", "average_with_plain": True, "weight": 1.5}]},
    "own layers": {"negatives": [IN_BATCH, {"kind": "layers", "columns": "own", "average_with_plain": True}]},
    "layers without gradient": {"negatives": [IN_BATCH, {"kind": "layers", "detach": True}]},
    "gaussian": {"negatives": [IN_BATCH, {"kind": "gaussian", "count": 1.5, "weight": 0.4}]},
    "gmm": {"negatives": [IN_BATCH, {"kind": "gmm", "components": 2}]},
    "vae": {"negatives": [IN_BATCH, {"kind": "vae", "latent": 3, "hidden": 5}]},
    "memory bank": {"negatives": [IN_BATCH, {"kind": "memory_bank", "steps": 2, "weight": 3.0}]},
    "momentum queue": {"negatives": [IN_BATCH, {"kind": "momentum_queue"}]},
    "empty queue": {"negatives": [IN_BATCH, {"kind": "momentum_queue", "size": 1_000}]},
    "noisy anchors": {"negatives": [IN_BATCH, {"kind": "noisy_anchor"}]},
    "noisy anchors of others": {"negatives": [{"kind": "noisy_anchor", "own": False}]},
    "beside terms": {"negatives": [IN_BATCH], "terms": [{"kind": "dcl"}, {"kind": "barlow_twins", "artificial": 3}]},
    "everything": {
        "negatives": [
            {**IN_BATCH, "columns": "positives_and_anchors"},
            HARD,
            {"kind": "layers", "average_with_plain": True},
            {"kind": "gaussian"},
            {"kind": "memory_bank"},
            {"kind": "noisy_anchor"},
        ]
    },
}
CHOICES: dict[str, dict[str, Any]] = {
    "cosine": {},
    "dot, sharp": {"similarity": "dot", "temperature": 0.02},
    "smoothed": {"label_smoothing": 0.1, "temperature": 0.3},
    "duplicates count": {"mask_duplicates": False, "label_smoothing": 0.2},
}


def objective_of(data: Mapping[str, Any], encoder: SentenceEncoder, tile_bytes: int) -> Objective:
    """Begun, in float64, with sources that have seen a step."""
    objective = Objective.from_settings(validate(ObjectiveSettings, {**data, "tile_bytes": tile_bytes}, "test"))
    objective.begin(encoder, batch_size=N, seed=0)
    earlier = replace(representations(seed=9, dtype=torch.float32), noise_seed=4).detached()
    for source in objective.negatives:
        if source.kind == "momentum_queue":
            if source.settings.size != 1_000:
                assert isinstance(source, MomentumQueue)
                assert source.queue is not None
                source.queue.push(earlier.positive, earlier.keys[:, 1])
        else:
            source.after_backward(encoder, [], [earlier])
    return objective.double()


def representations(seed: int = 0, duplicates: bool = True, dtype: torch.dtype = torch.float64) -> Representations:
    random = torch.Generator().manual_seed(seed)

    def leaf(*shape: int) -> Tensor:
        return torch.randn(*shape, D, generator=random, dtype=torch.float64).to(dtype).requires_grad_()

    keys = torch.arange(N * (2 + H)).reshape(N, 2 + H)
    if duplicates:
        keys[3] = keys[1]  # an example twice
        keys[5, 0] = keys[7, 1]  # a text once as anchor, once as positive
        keys[6, 2] = keys[6, 1]  # a hard negative that is its own positive
        keys[8, 3] = keys[2, 0]  # one that is another's anchor
    return Representations(
        anchor=leaf(N),
        positive=leaf(N),
        hard=leaf(N, H),
        keys=keys,
        answers={Clean(): leaf(N), Layer(-2): leaf(2 * N), Layer(0): leaf(2 * N), Means(3): leaf(2, N)},
        noise_seed=11,
    )


def figures(objective: Objective, reps: Representations) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Losses and report; gradients of whatever has one."""
    outcome = objective(reps)
    leaves = {"anchor": reps.anchor, "positive": reps.positive, "hard": reps.hard}
    leaves |= {str(request): answer for request, answer in reps.answers.items()}
    found = torch.autograd.grad(outcome.total, list(leaves.values()), allow_unused=True)
    gradients = {name: g for name, g in zip(leaves, found, strict=True) if g is not None}
    return {**outcome.losses, **outcome.report}, gradients


@pytest.fixture(scope="module")
def encoder(tiny_folder: Path) -> SentenceEncoder:
    """With a head of another width, the vectors' in training."""
    encoder = SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu")
    encoder.projection = Dense(32, D)
    return encoder


@pytest.mark.parametrize("choices", CHOICES.values(), ids=CHOICES)
@pytest.mark.parametrize("data", OBJECTIVES.values(), ids=OBJECTIVES)
def test_tiles_give_the_dense_loss_and_gradients(
    data: dict[str, Any], choices: dict[str, Any], encoder: SentenceEncoder
) -> None:
    dense, dense_gradients = figures(objective_of({**data, **choices}, encoder, 10**9), representations())
    for tile_bytes in (1, 8 * N * 5):  # one anchor in a tile; a few, and fewer in the last
        tiled, gradients = figures(objective_of({**data, **choices}, encoder, tile_bytes), representations())
        assert list(tiled) == list(dense)
        for name, wanted in dense.items():
            tolerance = 1e-10 if wanted.dtype == torch.float64 else 1e-5  # dense sums of figures are in float32
            torch.testing.assert_close(tiled[name].double(), wanted.double(), rtol=tolerance, atol=tolerance)
        assert list(gradients) == list(dense_gradients)
        for name, wanted in dense_gradients.items():
            assert wanted.abs().max() > 1e-6, name
            torch.testing.assert_close(gradients[name], wanted, rtol=1e-10, atol=1e-10)
