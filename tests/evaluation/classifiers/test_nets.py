"""Gradients in closed form against automatic differentiation, for several fits at once."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from opencse.evaluation.classifiers.nets import logits, new_net
from opencse.evaluation.classifiers.settings import MODES


@pytest.mark.parametrize("hidden", [0, 5])
def test_gradients_are_those_of_automatic_differentiation(hidden: int) -> None:
    settings = replace(MODES["test"], hidden=hidden)
    like = torch.zeros(1, dtype=torch.float64)
    net = new_net(settings, torch.Size((2, 3)), 4, 6, like)
    generator = torch.Generator().manual_seed(0)
    batch = torch.randn(2, 7, 7, generator=generator, dtype=torch.float64)
    batch[..., -1] = 1
    targets = torch.randint(4, (2, 7), generator=generator)
    gradients = net.gradients(batch, targets)
    for group in range(2):
        parameters = [p[group].clone().requires_grad_() for p in net.parameters]
        scores = logits(parameters, batch[group]).transpose(1, 2)
        loss = torch.stack([torch.nn.functional.cross_entropy(fit, targets[group]) for fit in scores]).sum()
        for gradient, expected in zip(gradients, torch.autograd.grad(loss, parameters), strict=True):
            torch.testing.assert_close(gradient[group], expected)


def test_all_fits_start_from_the_weights_of_a_linear_layer() -> None:
    net = new_net(MODES["test"], torch.Size((2, 3)), 4, 6, torch.zeros(1))
    torch.manual_seed(MODES["test"].seed)
    layer = torch.nn.Linear(6, 4)
    expected = torch.cat([layer.weight, layer.bias[:, None]], dim=1)
    assert (net.parameters[0] == expected).all()
