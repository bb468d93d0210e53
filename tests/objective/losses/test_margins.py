"""The loss of soft negatives against loops over examples."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from opencse.objective.losses import bidirectional_margin


def cosine(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum() / ((a * a).sum().sqrt() * (b * b).sum().sqrt())


def naive(anchors: Tensor, positives: Tensor, negatives: Tensor, alpha: float, beta: float) -> Tensor:
    total = anchors.new_zeros(())
    for a, p, n in zip(anchors, positives, negatives, strict=True):
        difference = cosine(a, n) - cosine(a, p)
        if float(difference) > -alpha:
            total = total + difference + alpha
        if float(difference) < -beta:
            total = total - difference - beta
    return total / len(anchors)


@pytest.mark.parametrize(("alpha", "beta"), [(0.1, 0.3), (0.0, 1.0), (0.4, 0.5)])
def test_loss_and_gradients_equal_loops(alpha: float, beta: float) -> None:
    generator = torch.Generator().manual_seed(3)
    vectors = [torch.randn(9, 6, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(3)]
    losses = [
        bidirectional_margin(*vectors, alpha=alpha, beta=beta),
        naive(vectors[0], vectors[1], vectors[2], alpha, beta),
    ]
    assert math.isclose(float(losses[0]), float(losses[1]), abs_tol=1e-10)
    assert float(losses[0]) > 0
    for a, b in zip(*(torch.autograd.grad(loss, vectors) for loss in losses), strict=True):
        torch.testing.assert_close(a, b, atol=1e-10, rtol=0)
        assert bool(a.any())


def test_nothing_is_lost_between_the_margins() -> None:
    anchor, positive = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0]])
    negative = torch.tensor([[0.8, 0.6]])
    assert float(bidirectional_margin(anchor, positive, negative)) == 0.0
