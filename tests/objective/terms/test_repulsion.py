"""Views that are pushed apart."""

from __future__ import annotations

import math

import pytest
import torch

from opencse.objective.terms.repulsion import Repulsion
from opencse.objective.vectors.step import Representations


def test_the_loss_by_loops_and_its_direction() -> None:
    anchor, positive = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    anchor.requires_grad_()
    cosines = [
        sum(x * y for x, y in zip(a, b, strict=True)) / (math.hypot(*a) * math.hypot(*b))
        for a, b in zip(anchor.tolist(), positive.tolist(), strict=True)
    ]
    loss = Repulsion(Repulsion.Settings(temperature=0.2)).loss(Representations.of(anchor, positive))
    assert loss.item() == pytest.approx(sum(cosines) / 6 / 0.2, rel=1e-12)
    (gradient,) = torch.autograd.grad(loss, anchor)
    moved = torch.cosine_similarity(anchor - 0.01 * gradient, positive).mean()
    assert moved < torch.cosine_similarity(anchor, positive).mean(), "a step lowers the similarity"
