"""The loss of SG-OPT against naive loops."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from opencse.objective.losses import self_guided

N, LAYERS, D = 5, 3, 4


def naive(anchor: Tensor, layers: Tensor, temperature: float, left_out: Tensor | None) -> Tensor:
    def phi(x: Tensor, y: Tensor) -> Tensor:
        dot = sum((x[d] * y[d] for d in range(D)), start=torch.zeros((), dtype=x.dtype))
        lengths = sum(x[d] ** 2 for d in range(D)) * sum(y[d] ** 2 for d in range(D))
        return torch.exp(dot / lengths**0.5 / temperature)

    total = torch.zeros((), dtype=anchor.dtype)
    for i in range(N):
        others = [j for j in range(N) if j != i and not (left_out is not None and left_out[i, j])]
        z = torch.zeros((), dtype=anchor.dtype)
        for k in range(LAYERS):
            z = z + sum(phi(anchor[i], layers[k, j]) for j in others)
        for k in range(LAYERS):
            own = phi(anchor[i], layers[k, i])
            total = total - torch.log(own / (own + z))
    return total / (N * LAYERS)


def inputs() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    anchor, layers = (
        torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((N, D), (LAYERS, N, D))
    )
    return anchor.requires_grad_(), layers.requires_grad_()


@pytest.mark.parametrize("temperature", [0.05, 1.0])
@pytest.mark.parametrize("masked", [False, True])
def test_loss_and_gradients(temperature: float, masked: bool) -> None:
    left_out = None
    if masked:
        left_out = torch.zeros(N, N, dtype=torch.bool)
        left_out[0, 2] = left_out[2, 0] = True
    tensors = inputs()
    ours, theirs = (
        self_guided(*tensors, temperature=temperature, left_out=left_out),
        naive(*tensors, temperature, left_out),
    )
    assert abs(ours - theirs) < 1e-10
    for a, b in zip(torch.autograd.grad(ours, tensors), torch.autograd.grad(theirs, tensors), strict=True):
        assert (a - b).abs().max() < 1e-10
        assert b.abs().max() > 1e-4


def test_a_text_without_others_has_no_loss() -> None:
    anchor, layers = inputs()
    everything = torch.ones(N, N, dtype=torch.bool)
    assert self_guided(anchor, layers, left_out=everything) == 0
    assert self_guided(anchor, layers, temperature=1e-3).isfinite()
