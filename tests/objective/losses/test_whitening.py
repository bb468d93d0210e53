"""Whitening of groups of dimensions against naive loops, and its gradient where eigenvalues are equal."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from opencse.objective.losses import group_whitening

N, D = 9, 7


def naive(vectors: Tensor, order: list[int], size: int, epsilon: float, detached: bool) -> Tensor:
    """Group by group, with the inverse square root by Denman and Beavers' iteration."""
    columns: dict[int, Tensor] = {}
    for start in range(0, D, size):
        group = order[start : start + size]
        s = len(group)
        means = [torch.stack([vectors[i, d] for i in range(N)]).sum() / N for d in group]
        centred = torch.stack([torch.stack([vectors[i, d] - means[k] for k, d in enumerate(group)]) for i in range(N)])
        source = centred.detach() if detached else centred
        rows = []
        for a in range(s):
            row = [torch.stack([source[i, a] * source[i, b] for i in range(N)]).sum() / N for b in range(s)]
            rows.append(torch.stack([value + epsilon * (a == b) for b, value in enumerate(row)]))
        y, z = torch.stack(rows), torch.eye(s, dtype=vectors.dtype)
        for _ in range(30):  # y to the root, z to its inverse
            y, z = (y + torch.linalg.inv(z)) / 2, (z + torch.linalg.inv(y)) / 2
        white = centred @ z
        for k, d in enumerate(group):
            columns[d] = white[:, k]
    return torch.stack([columns[d] for d in range(D)], dim=1)


def vectors() -> Tensor:
    return torch.randn(N, D, generator=torch.Generator().manual_seed(2), dtype=torch.float64).requires_grad_()


@pytest.mark.parametrize("detached", [False, True])
@pytest.mark.parametrize("size", [1, 3, 7, 9])
def test_values_and_gradients(size: int, detached: bool) -> None:
    order = torch.tensor([4, 0, 6, 2, 1, 5, 3])
    x = vectors()
    ours = group_whitening(x, order, size=size, epsilon=0.01, detached=detached)
    theirs = naive(x, order.tolist(), size, 0.01, detached)
    assert (ours - theirs).abs().max() < 1e-10
    weights = torch.randn(N, D, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    (a,) = torch.autograd.grad((ours * weights).sum(), x)
    (b,) = torch.autograd.grad((theirs * weights).sum(), x)
    assert (a - b).abs().max() < 1e-10
    assert b.abs().max() > 1e-3


def test_groups_have_the_identity_as_covariance_and_others_do_not() -> None:
    order = torch.tensor([4, 0, 6, 2, 1, 5, 3])
    white = group_whitening(vectors(), order, size=3, epsilon=1e-12).detach()[:, order]
    covariance = white.T @ white / N
    for group in (slice(0, 3), slice(3, 6), slice(6, 7)):
        block = covariance[group, group]
        assert (block - torch.eye(len(block), dtype=block.dtype)).abs().max() < 1e-8
    assert covariance[:3, 3:].abs().max() > 0.1
    assert white.mean(dim=0).abs().max() < 1e-12


def test_each_argument_counts() -> None:
    x, order = vectors(), torch.arange(D)
    base = group_whitening(x, order, size=3)
    for other in (
        group_whitening(x, order.flip(0), size=3),
        group_whitening(x, order, size=2),
        group_whitening(x, order, size=3, epsilon=0.1),
    ):
        assert (other - base).abs().max() > 1e-3


def test_equal_eigenvalues_have_a_finite_gradient() -> None:
    x = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: group_whitening(v, torch.arange(2), size=2), (x,))
    few = torch.randn(2, 6, dtype=torch.float32, requires_grad=True)  # fewer rows than dimensions
    (gradient,) = torch.autograd.grad(group_whitening(few, torch.arange(6), size=6).square().sum(), few)
    assert gradient.isfinite().all()
