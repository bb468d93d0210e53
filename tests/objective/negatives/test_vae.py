"""The auto-encoder's formulas against modules of torch and one Adam."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from opencse.objective.negatives.base import standardised
from opencse.objective.negatives.vae import AutoEncoder, Vae

N, D = 6, 8


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def cloud(step: int, n: int = N, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """Two narrow clusters far from each other and from 0, every other row."""
    centre = torch.where(torch.arange(n) % 2 == 0, 1.0, -1.0).unsqueeze(1) * torch.linspace(1, 2, D) + 5.0
    return (centre + 0.1 * torch.randn(n, D, generator=generator(1000 + step))).to(dtype)


class Reference(torch.nn.Module):
    """The same auto-encoder as torch modules, trained by one Adam for good."""

    def __init__(self, start: AutoEncoder, settings: Vae.Settings) -> None:
        super().__init__()
        layers = (D, settings.hidden), (settings.hidden, 2 * settings.latent)
        back = (settings.latent, settings.hidden), (settings.hidden, D)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in (*layers, *back))
        torch.nn.utils.vector_to_parameters(start.weights.clone(), self.parameters())
        self.settings = settings
        self.optimizer = torch.optim.Adam(self.parameters(), lr=settings.learning_rate, betas=(0.9, 0.999), eps=1e-8)

    def decode(self, latent: Tensor) -> Tensor:
        decoded: Tensor = self.layers[3](self.layers[2](latent).tanh())
        return decoded

    def loss(self, inputs: Tensor, noise: torch.Generator) -> Tensor:
        latent = self.settings.latent
        coded = self.layers[1](self.layers[0](inputs).tanh())
        drawn = torch.randn(len(inputs), latent, generator=noise)
        total = torch.zeros(())
        for row, x in enumerate(inputs):
            m, log_variance = coded[row, :latent], coded[row, latent:]
            decoded = self.decode(m + log_variance.exp().sqrt() * drawn[row])
            normal = torch.distributions.Normal(m, log_variance.exp().sqrt())
            prior = torch.distributions.Normal(torch.zeros(latent), torch.ones(latent))
            likelihood = -((x - decoded) ** 2).sum() / 2
            total = total + torch.distributions.kl_divergence(normal, prior).sum() - likelihood
        return total / len(inputs)

    def fit(self, points: Tensor, noise: torch.Generator) -> None:
        for _ in range(self.settings.updates):
            self.optimizer.zero_grad()
            self.loss((points - points.mean(dim=0)) / points.std(dim=0), noise).backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()


def test_the_auto_encoder_against_modules_and_one_adam() -> None:
    settings = Vae.Settings(latent=3, hidden=5, updates=2, learning_rate=0.01)
    model = AutoEncoder(settings, torch.zeros(0, D), seed=4)
    reference = Reference(model, settings)
    start = model.weights.clone()
    inputs = standardised(cloud(0, 20))[0]
    found, wanted = model.loss(start, inputs, generator(7)), reference.loss(inputs, generator(7))
    torch.testing.assert_close(found, wanted.detach())
    for step in range(4):
        points = cloud(step, 20)
        model.fit(points, generator(step))
        reference.fit(points, generator(step))
        expected = torch.nn.utils.parameters_to_vector(reference.parameters()).detach()
        torch.testing.assert_close(model.weights, expected, rtol=1e-4, atol=1e-6)
    assert float((model.weights - start).abs().max()) > 0.03
    assert int(model.updates) == 8
    latent = torch.randn(11, 3, generator=generator(9))
    expected = cloud(3, 20).mean(dim=0) + cloud(3, 20).std(dim=0) * reference.decode(latent).detach()
    torch.testing.assert_close(model.sample(11, generator(9)), expected, rtol=1e-4, atol=1e-5)


def test_first_weights_are_of_unit_gain() -> None:
    model = AutoEncoder(Vae.Settings(), torch.zeros(0, 768), seed=0)
    shapes = [(256, 768), (256,), (128, 256), (128,), (256, 64), (256,), (768, 256), (768,)]
    assert model.shapes == shapes
    pieces = torch.split(model.weights, [math.prod(shape) for shape in shapes])
    for shape, piece in zip(shapes, pieces, strict=True):
        if len(shape) == 1:
            assert not piece.any()
        else:
            assert float(piece.std()) == pytest.approx(shape[1] ** -0.5, rel=0.02)
