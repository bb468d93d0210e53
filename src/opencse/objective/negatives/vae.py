"""Negatives sampled from a variational auto-encoder that is fitted on the outputs of the last steps."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from opencse.objective.negatives.base import Distribution, Fitted, FittedSettings, standardised
from opencse.objective.negatives.vector_queue import VectorQueue
from opencse.objective.noise import standard_normal
from opencse.streams import Stream


class Vae(Fitted):
    """Variational auto-encoder sampling (Park's thesis, section 4.3; Table 5).

    Columns of anchor i: ``sim(a_i, g_k) / tau``, weight ``weight`` each, for k = 1 ... ``count`` times N, where g_k is
    decoded from l_k ~ N(0, I). After each step's backward pass the auto-encoder makes ``updates`` Adam steps, each on
    all of the store: the outputs of the last ``steps`` (8) steps. It starts with random weights and continues from
    step to step. With x an output, standardised by dimension over the store, what is minimised is the mean over x of
    (Kingma and Welling 2014, eq. 10, one draw, a Gaussian decoder of variance 1)::

        1/2 |x - dec(l)|^2 + 1/2 sum (m^2 + s^2 - 1 - log s^2)      l = m + s * eps,  (m, log s^2) = enc(x)
        g = mean + sd * dec(l)                                      mean, sd: of the store, at the last fit

    enc and dec have two layers each, with tanh between (their appendix C): d to ``hidden`` to 2 ``latent``, and
    ``latent`` to ``hidden`` to d. The thesis gives no sizes, no number of updates and no rate. g is the decoder's mean,
    without noise of its own, so samples vary less than the outputs do. Before the first fit there are no columns.

    Example:
        >>> Vae(Vae.Settings(count=2)).count(batch_size=64, hard=0)
        128
    """

    class Settings(FittedSettings):
        """Settings of `Vae`."""

        kind: Literal["vae"] = "vae"
        latent: int = Field(default=64, ge=1, le=65_536)
        hidden: int = Field(default=256, ge=1, le=65_536)
        updates: int = Field(default=4, ge=1, le=1_000_000)
        learning_rate: float = Field(default=1e-3, gt=0, allow_inf_nan=False)

    settings: Settings

    def new_distribution(self, store: VectorQueue, seed: int) -> Distribution:
        """An auto-encoder with random weights."""
        return AutoEncoder(self.settings, store.stored, seed)


class AutoEncoder(Distribution):
    """The weights of the auto-encoder, the state of its optimizer, and the scale of the points it was fitted on.

    All weights are in one vector, a buffer: so they are no parameters, which the run's optimizer would train. The
    state of its own optimizer is three more buffers.

    Args:
        settings: sizes, updates and rate.
        like: (any, d) tensor; the state is made for its width, on its device.
        seed: the seed of the first weights.

    Example:
        >>> model = AutoEncoder(Vae.Settings(latent=2, hidden=8), torch.zeros(0, 3), seed=0)
        >>> noise = torch.Generator().manual_seed(0)
        >>> model.fit(torch.randn(50, 3, generator=noise), noise)
        >>> model.sample(5, noise).shape
        torch.Size([5, 3])
    """

    weights: Tensor
    first_moment: Tensor
    second_moment: Tensor
    updates: Tensor
    mean: Tensor
    sd: Tensor

    def __init__(self, settings: Vae.Settings, like: Tensor, seed: int) -> None:
        super().__init__()
        self.settings = settings
        d, hidden, latent = like.shape[1], settings.hidden, settings.latent
        layers = ((hidden, d), (2 * latent, hidden), (hidden, latent), (d, hidden))
        self.shapes = [shape for out, into in layers for shape in ((out, into), (out,))]
        weights = _random_weights(layers, seed).to(like.device)
        for name in ("weights", "first_moment", "second_moment"):
            self.register_buffer(name, weights.clone() if name == "weights" else torch.zeros_like(weights))
        for name in ("mean", "sd"):
            self.register_buffer(name, torch.zeros(d, device=like.device))
        # On the CPU, where Adam and `fitted` read it: on a GPU each reading would wait for all work in flight.
        self.register_buffer("updates", torch.zeros((), device="cpu"))

    @property
    def fitted(self) -> bool:
        """Whether any update was made."""
        return bool(self.updates > 0)

    @torch.enable_grad()
    def fit(self, points: Tensor, noise: torch.Generator) -> None:
        """Some Adam updates on all points."""
        inputs, mean, sd = standardised(points.float())
        self.mean.copy_(mean)
        self.sd.copy_(sd)
        leaf = self.weights.detach().requires_grad_()  # shares its memory with the buffer, as the moments do
        optimizer = torch.optim.Adam([leaf], lr=self.settings.learning_rate)
        optimizer.state[leaf] = {
            "step": self.updates,
            "exp_avg": self.first_moment,
            "exp_avg_sq": self.second_moment,
        }
        for _ in range(self.settings.updates):
            optimizer.zero_grad()
            self.loss(leaf, inputs, noise).backward()  # type: ignore[no-untyped-call]
            optimizer.step()

    def loss(self, weights: Tensor, inputs: Tensor, noise: torch.Generator) -> Tensor:
        """The scalar to minimise: (n, d) standardised inputs; see `Vae`."""
        w1, b1, w2, b2, w3, b3, w4, b4 = self._unpacked(weights)
        coded = functional.linear(torch.tanh(functional.linear(inputs, w1, b1)), w2, b2)
        centre, log_variance = coded.chunk(2, dim=1)
        noises = standard_normal(centre.shape, inputs, noise)
        latent = centre + (log_variance / 2).exp() * noises
        decoded = _decode(latent, w3, b3, w4, b4)
        divergence = (centre.square() + log_variance.exp() - 1 - log_variance).sum(dim=1)
        return ((inputs - decoded).square().sum(dim=1) + divergence).mean() / 2

    def sample(self, rows: int, noise: torch.Generator) -> Tensor:
        """(``rows``, d): decoded from standard normal latents, in the scale of the points."""
        latent = standard_normal((rows, self.settings.latent), self.weights, noise)
        return self.mean + self.sd * _decode(latent, *self._unpacked(self.weights)[4:])

    def _unpacked(self, weights: Tensor) -> list[Tensor]:
        pieces = torch.split(weights, [math.prod(shape) for shape in self.shapes])
        return [piece.view(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]


def _decode(latent: Tensor, w3: Tensor, b3: Tensor, w4: Tensor, b4: Tensor) -> Tensor:
    return functional.linear(torch.tanh(functional.linear(latent, w3, b3)), w4, b4)


def _random_weights(layers: tuple[tuple[int, int], ...], seed: int) -> Tensor:
    """One vector of all layers' weights, normal with variance 1 / inputs, and their biases, 0."""
    random = np.random.default_rng([seed, Stream.VAE_WEIGHTS])
    pieces = []
    for out, into in layers:
        pieces += [random.normal(0.0, into**-0.5, out * into), np.zeros(out)]
    return torch.from_numpy(np.concatenate(pieces).astype(np.float32))
