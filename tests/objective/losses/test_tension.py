"""Contrastive tension against loops."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from opencse.objective.losses.tension import contrastive_tension


def test_the_loss_by_loops_and_its_gradients() -> None:
    random = torch.Generator().manual_seed(2)
    left, right = (torch.randn(6, 3, generator=random, dtype=torch.float64).requires_grad_() for _ in range(2))
    labels = torch.tensor([1, 1, 0, 0, 1, 0])
    total = 0.0
    for x, y, label in zip(left.tolist(), right.tolist(), labels.tolist(), strict=True):
        share = 1 / (1 + math.exp(-sum(p * q for p, q in zip(x, y, strict=True))))
        total -= math.log(share if label else 1 - share)
    assert contrastive_tension(left, right, labels).item() == pytest.approx(total / 6, rel=1e-12)

    def loss(a: Tensor, b: Tensor) -> Tensor:
        return contrastive_tension(a, b, labels)

    assert torch.autograd.gradcheck(loss, [left, right])


def test_far_vectors_have_a_finite_loss() -> None:
    far = torch.full((1, 4), 1e3)
    assert contrastive_tension(far, -far, torch.tensor([1])).isfinite()
