"""The contrast of a batch: dense up to the bytes it needs, then in tiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.modules.dense import Dense
from opencse.objective.columns import LogitColumns, VectorColumns
from opencse.objective.negatives.momentum_queue import MomentumQueue
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.vectors.requests import Clean, Layer, Means
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
    "gaussian of full covariance": {"negatives": [IN_BATCH, {"kind": "gaussian", "covariance": "full"}]},
    "gmm": {"negatives": [IN_BATCH, {"kind": "gmm", "components": 2}]},
    "vae": {"negatives": [IN_BATCH, {"kind": "vae", "latent": 3, "hidden": 5}]},
    "memory bank": {"negatives": [IN_BATCH, {"kind": "memory_bank", "steps": 2, "weight": 3.0}]},
    "momentum queue": {"negatives": [IN_BATCH, {"kind": "momentum_queue"}]},
    "empty queue": {"negatives": [IN_BATCH, {"kind": "momentum_queue", "size": 1_000}]},
    "noisy anchors": {"negatives": [IN_BATCH, {"kind": "noisy_anchor"}]},
    "noisy anchors of others": {"negatives": [{"kind": "noisy_anchor", "own": False}]},
    "with terms": {"negatives": [IN_BATCH], "terms": [{"kind": "dcl"}, {"kind": "barlow_twins", "artificial": 3}]},
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


@pytest.fixture(scope="module")
def encoder(tiny_encoder: SentenceEncoder) -> SentenceEncoder:
    """The tiny model with a training head, whose vectors have another number of dimensions."""
    encoder = tiny_encoder.twin()
    encoder.projection = Dense(32, D)
    return encoder


def test_the_dense_loss_is_taken_up_to_the_bytes_it_needs(
    encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    whole = VectorColumns.dense

    def dense(columns: VectorColumns) -> LogitColumns:
        made.append(columns.shape[1])
        return whole(columns)

    monkeypatch.setattr(VectorColumns, "dense", dense)
    needed = 8 * N * (N + 2 * N)  # float64: in-batch and two hard negatives
    for tile_bytes, sources in ((needed, 2), (needed - 1, 0)):
        made.clear()
        objective_of(OBJECTIVES["hard"], encoder, tile_bytes)(representations())
        assert len(made) == sources
