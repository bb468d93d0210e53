"""A temperature that is trained: the loss of a fixed one at the start, with its own gradient."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from opencse.errors import UserError
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.vectors.requests import Layer
from opencse.objective.vectors.step import Representations
from opencse.settings import validate

N, D, TAU = 6, 4, 0.2
SOURCES: dict[str, list[dict[str, Any]]] = {
    "in_batch": [{"kind": "in_batch"}],
    "hardness": [{"kind": "in_batch", "hardness": 3.0}, {"kind": "hard", "hardness": 2.0}],
    "logits": [{"kind": "in_batch", "weight": 0.9}, {"kind": "layers", "columns": "own"}],
    "generated": [{"kind": "in_batch", "columns": "positives_and_anchors"}, {"kind": "gaussian"}],
}
every_source = pytest.mark.parametrize("negatives", SOURCES.values(), ids=SOURCES)
tiled = pytest.mark.parametrize("tile_bytes", [2**24, 100], ids=["at once", "in tiles"])


def objective(**settings: Any) -> Objective:
    made = Objective.from_settings(validate(ObjectiveSettings, {"temperature": TAU, **settings}, "test"))
    return made.double()


def vectors() -> Representations:
    random = torch.Generator().manual_seed(1)
    anchor, positive = (torch.randn(N, D, generator=random, dtype=torch.float64).requires_grad_() for _ in range(2))
    hard = torch.randn(N, 1, D, generator=random, dtype=torch.float64)
    layer = torch.randn(2 * N, D, generator=random, dtype=torch.float64)
    keys = Representations.of(anchor, positive, hard).keys
    return Representations(anchor, positive, hard, keys, {Layer(-2): layer}, noise_seed=0)


@tiled
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@every_source
def test_it_begins_as_the_fixed_temperature(negatives: list[dict[str, Any]], similarity: str, tile_bytes: int) -> None:
    reps = vectors()
    settings = {"negatives": negatives, "similarity": similarity, "tile_bytes": tile_bytes, "directions": "both"}
    fixed, learned = objective(**settings)(reps), objective(**settings, learned_temperature=True)(reps)
    torch.testing.assert_close(learned.total, fixed.total, rtol=1e-6, atol=1e-6)  # s begins as a float32
    for name in ("positive_similarity", "negative_similarity"):
        torch.testing.assert_close(learned.report[name].double(), fixed.report[name].double(), rtol=1e-5, atol=1e-6)
    assert learned.report["temperature"].item() == pytest.approx(TAU, rel=1e-6)
    ours, theirs = (torch.autograd.grad(one.total, [reps.anchor, reps.positive]) for one in (learned, fixed))
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)


@tiled
@pytest.mark.parametrize("negatives", [SOURCES[name] for name in SOURCES if name != "hardness"])
def test_its_gradient_is_the_slope_of_the_loss(negatives: list[dict[str, Any]], tile_bytes: int) -> None:
    reps, made = vectors(), objective(negatives=negatives, learned_temperature=True, tile_bytes=tile_bytes)
    assert made.learned_temperature is not None
    log_scale = made.learned_temperature.log_scale
    (gradient,) = torch.autograd.grad(made(reps).total, log_scale)

    def at(shift: float) -> Tensor:
        with torch.no_grad():
            log_scale.add_(shift)
            loss: Tensor = made(reps).total
            log_scale.sub_(shift)
        return loss

    assert gradient.item() == pytest.approx(float(at(1e-6) - at(-1e-6)) / 2e-6, rel=1e-6)
    assert abs(gradient) > 1e-3


def test_it_is_trained_and_stored() -> None:
    made = objective(learned_temperature=True)
    assert "learned_temperature.log_scale" in made.state_dict()
    assert [parameter.numel() for parameter in made.parameters()] == [1]
    assert math.exp(-float(made.state_dict()["learned_temperature.log_scale"])) == pytest.approx(TAU, rel=1e-6)
    assert not list(objective().parameters())


def test_it_does_not_go_with_truncated_vectors() -> None:
    with pytest.raises(UserError, match=r"objective\.matryoshka .* leave one of them out"):
        objective(learned_temperature=True, matryoshka={"dimensions": [2]})


def test_samples_that_climb_the_contrast_need_a_fixed_temperature() -> None:
    with pytest.raises(UserError, match=r"ascend follows the contrast at a fixed temperature"):
        objective(learned_temperature=True, negatives=[{"kind": "gaussian", "ascend": {"steps": 1}}])
