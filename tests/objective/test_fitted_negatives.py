"""The auto-encoder and the mixture as negatives: their formulas, what they learn, their state."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers import objective_of
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.dense import Dense
from opencse.objective.columns import Scoring
from opencse.objective.negatives.fitted import (
    AutoEncoder,
    Fitted,
    Gmm,
    Mixture,
    Vae,
    _revive,
    standardised,
)
from opencse.objective.vectors.step import Representations, StepInputs
from opencse.streams import seed_of
from opencse.text.tokenizer import Tokens

N, D = 6, 8
COSINE = Scoring("cosine", 0.5, True)
DOT = Scoring("dot", 1.0, True)
VAE: dict[str, Any] = {"kind": "vae", "latent": 3, "hidden": 5}
GMM: dict[str, Any] = {"kind": "gmm", "components": 2}
BOTH = pytest.mark.parametrize("data", [VAE, GMM], ids=["vae", "gmm"])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def encoder(tiny_encoder: SentenceEncoder) -> SentenceEncoder:
    """The tiny model with a training head, whose vectors have another number of dimensions."""
    encoder = tiny_encoder.twin()
    encoder.projection = Dense(32, D)
    return encoder


def begun(encoder: SentenceEncoder, data: dict[str, Any], *, batch_size: int = N, seed: int = 0) -> Fitted:
    (source,) = objective_of(negatives=[data]).negatives
    assert isinstance(source, Fitted)
    source.begin(encoder, batch_size=batch_size, seed=seed)
    return source


def cloud(step: int, n: int = N, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """Two narrow clusters far from each other and from 0, every other row."""
    centre = torch.where(torch.arange(n) % 2 == 0, 1.0, -1.0).unsqueeze(1) * torch.linspace(1, 2, D) + 5.0
    return (centre + 0.1 * torch.randn(n, D, generator=generator(1000 + step))).to(dtype)


def reps_of(anchor: Tensor, step: int) -> Representations:
    return replace(Representations.of(anchor, anchor), noise_seed=step)


def no_inputs(n: int) -> StepInputs:
    """What these sources do not read."""
    ids = torch.zeros(n, 1, dtype=torch.int64)
    return StepInputs(Tokens(ids, ids + 1), n, torch.zeros(1))


@torch.no_grad()
def one_step(source: Fitted, encoder: SentenceEncoder, step: int, anchor: Tensor | None = None) -> Tensor:
    """Columns, then the fit, as a trainer would; the columns' logits."""
    reps = reps_of(cloud(step) if anchor is None else anchor, step)
    logits = source.columns(reps, DOT).dense().logits
    source.after_backward(encoder, [no_inputs(len(reps.anchor))], [reps.detached()])
    return logits


@BOTH
def test_columns_are_samples_once_it_is_fitted(encoder: SentenceEncoder, data: dict[str, Any]) -> None:
    source = begun(encoder, {**data, "count": 1.5, "weight": 2.0})
    assert source.count(N, 0) == 9
    reps = reps_of(cloud(0), 0)
    assert source.columns(reps, COSINE).dense().logits.shape == (N, 0)
    one_step(source, encoder, 0)
    leaf = cloud(1).requires_grad_()
    columns = source.columns(reps_of(leaf, 1), COSINE).dense()
    samples = source.distribution.sample(9, generator(seed_of(1, source.name)))
    assert samples.shape == (9, D)
    assert not samples.requires_grad
    torch.testing.assert_close(columns.logits, COSINE.logits(leaf, samples))
    assert columns.log_weight == pytest.approx(math.log(2.0))
    (found,) = torch.autograd.grad(columns.logits.exp().sum(), leaf)
    (wanted,) = torch.autograd.grad(COSINE.logits(leaf, samples).exp().sum(), leaf)
    torch.testing.assert_close(found, wanted)
    assert wanted.abs().max() > 0


@BOTH
def test_old_steps_are_forgotten(encoder: SentenceEncoder, data: dict[str, Any]) -> None:
    """After ``steps`` steps of another cloud, nothing of the first one is left in the scale of the samples."""
    source = begun(encoder, {**data, "steps": 3})
    for step in range(4):
        one_step(source, encoder, step, cloud(step) + 500)
    for step in range(4, 7):
        one_step(source, encoder, step)
    assert len(source.store) == 3 * N
    samples = source.distribution.sample(500, generator())
    assert float(samples.abs().max()) < 20


@BOTH
def test_autocast_and_half_precision_change_no_bit(encoder: SentenceEncoder, data: dict[str, Any]) -> None:
    plain, cast = begun(encoder, data), begun(encoder, data)
    for step in range(3):
        half = cloud(step, dtype=torch.bfloat16)
        wanted = one_step(plain, encoder, step, half.float())
        with torch.autocast("cpu", torch.bfloat16):
            found = one_step(cast, encoder, step, half)
        assert found.dtype == torch.float32
        assert torch.isfinite(found).all()
        assert torch.equal(found, wanted)
    assert all(value.dtype in (torch.float32, torch.int64) for value in cast.state_dict().values())


def test_what_the_mixture_refuses(encoder: SentenceEncoder) -> None:
    with pytest.raises(UserError, match=r"^gmm: 8 components cannot be fitted on 4 outputs \(2 steps of 2\); set more"):
        begun(encoder, {"kind": "gmm", "steps": 2}, batch_size=2)
    begun(encoder, {"kind": "gmm", "steps": 4}, batch_size=2)
    with pytest.raises(UserError, match=r"^gmm: a sentence vector is not finite; lower training\.learning_rate"):
        Mixture(Gmm.Settings(components=2), torch.zeros(0, D), seed=0).fit(cloud(0) * float("inf"), generator())


def mixture(components: int, iterations: int = 3, d: int = D) -> Mixture:
    return Mixture(Gmm.Settings(components=components, iterations=iterations), torch.zeros(0, d), seed=0)


def em(points: Tensor, state: tuple[Tensor, ...], iterations: int) -> tuple[Tensor, ...]:
    """Expectation and maximisation with the densities as they are."""
    weights, means, variances = (one.double() for one in state)
    for _ in range(iterations):
        normal = torch.distributions.Normal(means, variances.sqrt())
        parts = weights * normal.log_prob(points.unsqueeze(1)).sum(dim=2).exp()  # type: ignore[no-untyped-call]  # (points, components)
        shares = parts / parts.sum(dim=1, keepdim=True)
        totals = shares.sum(dim=0)
        weights, means = totals / len(points), shares.T @ points / totals.unsqueeze(1)
        squares = (points.unsqueeze(1) - means).square()
        variances = (shares.unsqueeze(2) * squares).sum(dim=0) / totals.unsqueeze(1)
    return weights, means, variances


def test_the_mixture_against_loops_from_where_it_ended() -> None:
    """Two fits on different points: the second starts at the end of the first, in the points' own scale."""
    model = mixture(2, iterations=2, d=3)
    random = torch.randn(2, 40, 3, generator=generator(), dtype=torch.float64)
    first, second = random * torch.tensor([1.0, 2.0, 5.0]) + torch.tensor([3.0, 0.0, 1.0])
    second = second * 1.5 - 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a step need not converge
        model.fit(first, generator(1))
    state = (model.weights.clone(), model.means.clone(), model.variances.clone())
    model.fit(second, generator(2))
    for found, wanted in zip((model.weights, model.means, model.variances), em(second, state, 2), strict=True):
        torch.testing.assert_close(found.double(), wanted, rtol=1e-3, atol=1e-4)
    assert (model.weights - state[0]).abs().max() > 1e-3


def test_equal_outliers_do_not_break_the_fit() -> None:
    """In float32 the difference of squares behind their variance would be rounding alone, below 0 at times."""
    model = mixture(2, iterations=10)
    points = torch.cat([torch.randn(200, D, generator=generator()), torch.full((4, D), 70.3)])
    for step in range(3):
        model.fit(points, generator(step))
    outliers = int(model.means[:, 0].argmax())
    torch.testing.assert_close(model.means[outliers], torch.full((D,), 70.3))
    assert float(model.weights[outliers]) == pytest.approx(4 / 204)
    expected = 1e-6 * points.var(dim=0)
    torch.testing.assert_close(model.variances[outliers], expected, rtol=1e-3, atol=0.0)


def test_samples_have_the_mixtures_moments() -> None:
    model = mixture(3, d=2)
    model.weights.copy_(torch.tensor([0.5, 0.3, 0.2]))
    model.means.copy_(torch.tensor([[0.0, 0.0], [100.0, 0.0], [0.0, 100.0]]))
    model.variances.copy_(torch.tensor([[1.0, 4.0], [9.0, 0.25], [0.0, 16.0]]))
    samples = model.sample(60_000, generator())
    groups = torch.cdist(samples, model.means).argmin(dim=1)
    for c in range(3):
        own = samples[groups == c]
        assert len(own) / 60_000 == pytest.approx(float(model.weights[c]), abs=0.01)
        torch.testing.assert_close(own.mean(dim=0), model.means[c], rtol=0.0, atol=0.15)
        torch.testing.assert_close(own.var(dim=0), model.variances[c], rtol=0.05, atol=1e-5)


def test_a_lost_component_takes_half_of_the_heaviest() -> None:
    weights, means = np.array([0.02, 0.6, 0.38]), np.array([[9.0, 9.0], [1.0, 2.0], [5.0, 5.0]])
    variances, drawn = np.array([[7.0, 7.0], [4.0, 9.0], [1.0, 1.0]]), np.array([[1.0, -2.0], [8.0, 8.0], [8.0, 8.0]])
    _revive(weights, means, variances, drawn, 50)
    np.testing.assert_allclose(weights, [0.3, 0.3, 0.38])
    np.testing.assert_allclose(means, [[1.2, 1.4], [0.8, 2.6], [5.0, 5.0]])
    np.testing.assert_allclose(variances, [[4.0, 9.0], [4.0, 9.0], [1.0, 1.0]])
    few = np.array([1 / 6, 2 / 6, 3 / 6])
    _revive(few, means, variances, drawn, 6)
    np.testing.assert_allclose(few, [1 / 6, 2 / 6, 3 / 6])  # three points make no two halves of two
    np.testing.assert_allclose(means[0], [1.2, 1.4])


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
