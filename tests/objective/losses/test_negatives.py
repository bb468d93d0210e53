"""Weights by nearness against loops and sentence-transformers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from torch import Tensor

from opencse.objective.losses.negatives import hardness_log_weight
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.vectors.step import Representations
from opencse.settings import validate

N, D, TAU, STRENGTH = 5, 4, 0.3, 2.7
MODES: dict[str, list[dict[str, Any]]] = {
    "in_batch_negatives": [
        {"kind": "in_batch", "hardness": STRENGTH},
        {"kind": "hard", "hardness": STRENGTH, "hardness_of": "others"},
    ],
    "hard_negatives": [{"kind": "in_batch"}, {"kind": "hard", "hardness": STRENGTH}],
    "all_negatives": [
        {"kind": "in_batch", "hardness": STRENGTH},
        {"kind": "hard", "hardness": STRENGTH, "hardness_of": "all"},
    ],
}


def leaves() -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(5)
    anchor, positive = torch.randn(2, N, D, generator=random, dtype=torch.float64).unbind()
    hard = torch.randn(N, 2, D, generator=random, dtype=torch.float64)
    return anchor.requires_grad_(), positive.requires_grad_(), hard.requires_grad_()


def by_the_objective(negatives: list[dict[str, Any]], tile_bytes: int, **more: Any) -> tuple[Tensor, list[Tensor]]:
    data = {"negatives": negatives, "temperature": TAU, "tile_bytes": tile_bytes, **more}
    objective = Objective.from_settings(validate(ObjectiveSettings, data, "test"))
    vectors = leaves()
    loss = objective(Representations.of(*vectors)).total
    return loss.detach(), list(torch.autograd.grad(loss, vectors))


def test_the_weight_of_a_negative_by_loops() -> None:
    similarity = torch.tensor([[0.5, -0.25, 0.0]], requires_grad=True)
    weights = hardness_log_weight(similarity, 3.0)
    assert not weights.requires_grad
    assert weights.tolist() == [[3.0 * value for value in (0.5, -0.25, 0.0)]]


@pytest.mark.parametrize("tile_bytes", [1, 10**9])
@pytest.mark.parametrize("mode", MODES)
def test_the_hardness_modes_of_sentence_transformers(mode: Any, tile_bytes: int) -> None:
    loss, gradients = by_the_objective(MODES[mode], tile_bytes)
    theirs = MultipleNegativesRankingLoss(
        torch.nn.Module(),
        scale=1 / TAU,
        hardness_mode=mode,
        hardness_strength=STRENGTH,
    )
    anchor, positive, hard = leaves()
    wanted = theirs.compute_loss_from_embeddings([anchor, positive, *hard.unbind(1)], torch.zeros(N))
    torch.testing.assert_close(loss, wanted.detach(), rtol=1e-10, atol=1e-10)
    for ours, gradient in zip(gradients, torch.autograd.grad(wanted, (anchor, positive, hard)), strict=True):
        assert gradient.abs().max() > 1e-6
        torch.testing.assert_close(ours, gradient, rtol=1e-10, atol=1e-10)
    plain, _ = by_the_objective([{"kind": "in_batch"}, {"kind": "hard"}], tile_bytes)
    assert abs(float(loss - plain)) > 1e-3


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_near_negatives_weigh_more_by_loops(similarity: str) -> None:
    """The gradient is that of weights that stand still."""
    negatives = [{"kind": "in_batch", "hardness": STRENGTH, "weight": 0.4}]
    loss, (of_anchor, of_positive, _) = by_the_objective([*negatives, {"kind": "hard"}], 10**9, similarity=similarity)
    anchor, positive, hard = leaves()

    def near(a: Tensor, b: Tensor) -> Tensor:
        product = torch.dot(a, b)
        return product / (a.norm() * b.norm()) if similarity == "cosine" else product

    losses = []
    for i in range(N):
        own = torch.exp(near(anchor[i], positive[i]) / TAU)
        total = own
        for j in range(N):
            if j != i:
                sim = near(anchor[i], positive[j])
                total = total + 0.4 * math.exp(STRENGTH * sim.item()) * torch.exp(sim / TAU)
            for h in range(2):
                total = total + torch.exp(near(anchor[i], hard[j, h]) / TAU)
        losses.append(-torch.log(own / total))
    wanted = torch.stack(losses).mean()
    assert loss.item() == pytest.approx(wanted.item(), rel=1e-10)
    first, second = torch.autograd.grad(wanted, (anchor, positive))
    torch.testing.assert_close(of_anchor, first, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(of_positive, second, rtol=1e-10, atol=1e-10)
