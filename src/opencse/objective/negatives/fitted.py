"""Negatives of a model that is fitted on the outputs of the last steps: a Gaussian mixture, an auto-encoder."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from opencse.arrays import Floats
from opencse.encoder.encoder import SentenceEncoder
from opencse.environment import require_packages
from opencse.errors import UserError
from opencse.objective.negatives.generated import Generated, GeneratedSettings
from opencse.objective.negatives.stored import VectorQueue, empty_store
from opencse.objective.similarity import at_least_float32, centre_and_spread, standard_normal
from opencse.objective.vectors.step import Representations, StepInputs
from opencse.settings import AboveZero
from opencse.streams import Stream


class FittedSettings(GeneratedSettings):
    """Settings of every source that is fitted on outputs of earlier steps.

    Attributes:
        steps: how many steps' outputs the model is fitted on (8 in the thesis).
    """

    steps: int = Field(default=8, ge=1, le=1_000_000)


class Distribution(nn.Module, ABC):
    """A distribution that is fitted to points and sampled from; its state is buffers of fixed shape."""

    @property
    @abstractmethod
    def fitted(self) -> bool:
        """Whether it has seen enough points to be sampled from."""

    @abstractmethod
    def fit(self, points: Tensor, noise: torch.Generator) -> None:
        """Updates its state to ``points`` (n, d), float32 or float64; called outside autocast."""

    @abstractmethod
    def sample(self, rows: int, noise: torch.Generator) -> Tensor:
        """Draws (``rows``, d) points."""


class Fitted(Generated):
    """Samples of a distribution that is fitted, after every step, on the outputs of the last ``steps`` steps.

    The outputs are the anchors' vectors after the training head, the last ``steps`` times N of them. Before the first
    fit there are no columns.
    """

    settings: FittedSettings
    store: VectorQueue
    distribution: Distribution

    @property
    def stored(self) -> int:
        """The size of its queue, after `begin`."""
        return self.store.size

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Makes the empty store and the distribution."""
        super().begin(encoder, batch_size=batch_size, seed=seed)
        self.store = empty_store(encoder, self.settings.steps * batch_size)
        self.distribution = self.new_distribution(self.store, seed)

    @abstractmethod
    def new_distribution(self, store: VectorQueue, seed: int) -> Distribution:
        """An unfitted distribution for the vectors of ``store``."""

    def generate(self, anchors: Tensor, rows: int, noise: torch.Generator) -> Tensor:
        """Draws (``rows``, d) vectors, or (0, d) before the first fit."""
        return self.distribution.sample(rows, noise) if self.distribution.fitted else anchors[:0]

    def after_backward(
        self, encoder: SentenceEncoder, inputs: Sequence[StepInputs], reps: Sequence[Representations]
    ) -> None:
        """Stores this step's anchors, then fits once."""
        store = self.store
        for batch in reps:
            store.push(batch.anchor, batch.keys[:, 0])
        with torch.autocast(store.vectors.device.type, enabled=False):
            self.distribution.fit(at_least_float32(store.vectors), self.noise(reps[-1], "fit"))


def standardised(points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Scales points to mean 0 and sd 1 in each dimension, 0 where a dimension has no spread; with their mean and sd.

    So a fit does not depend on the scale of the vectors, which differs between heads.
    """
    mean, sd = centre_and_spread(points)
    sd = sd.masked_fill((points == points[0]).all(dim=0), 0.0)  # exactly 0, which rounding may miss
    return (points - mean) / torch.where(sd > 0, sd, 1.0), mean, sd


_State = tuple[Floats, Floats, Floats]
_FLOOR = 1e-6
_SPLIT = 0.1


class Gmm(Fitted):
    """Gaussian mixture sampling (Park's thesis, section 4.3; Table 5).

    Columns of anchor i: ``sim(a_i, g_k) / tau``, weight ``weight`` each, for k = 1 ... ``count`` times N, where::

        g_k = mean_c + sqrt(variance_c) * eps_k,    P(c) = weight_c,    eps_k ~ N(0, I)

    are drawn from a mixture of ``components`` Gaussians with diagonal covariances (8; the thesis gives no size). After
    each step's backward pass it makes at most ``iterations`` EM iterations (scikit-learn's ``GaussianMixture``) on the
    outputs of the last ``steps`` (8) steps, and starts where the last fit ended. The first fit is as soon as there are
    as many outputs as components, and starts at k-means++ means, every variance that of all outputs. Variances are at
    least 1e-6 of those of all outputs. EM runs on the CPU in float64, wherever the vectors are.

    A component left with fewer than two outputs takes half of the heaviest one (both means move by a tenth of its
    standard deviation, one up and one down, in a random direction). Outputs come and go with their steps, and no new
    one joins a component of one or two outputs in many dimensions, so most components would be lost early.

    Example:
        >>> Gmm(Gmm.Settings(components=4, steps=2)).count(batch_size=64, hard=0)
        64
    """

    class Settings(FittedSettings):
        """Settings of `Gmm`."""

        kind: Literal["gmm"] = "gmm"
        components: int = Field(default=8, ge=1, le=1_048_576)
        iterations: int = Field(default=5, ge=1, le=1_000_000)

    settings: Settings

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Makes the store and the mixture; refuses more components than stored outputs."""
        require_packages("gmm", "train", "sklearn")
        settings = self.settings
        stored = settings.steps * batch_size
        if stored < settings.components:
            raise UserError(
                f"gmm: {settings.components} components cannot be fitted on {stored} outputs ({settings.steps} steps "
                f"of {batch_size}); set more steps or fewer components"
            )
        super().begin(encoder, batch_size=batch_size, seed=seed)

    def new_distribution(self, store: VectorQueue, seed: int) -> Distribution:
        """An unfitted mixture."""
        return Mixture(self.settings, store.stored, seed)


class Mixture(Distribution):
    """The mixture's weights, means and variances, in the scale of the points.

    Args:
        settings: how many components and iterations.
        like: (any, d) tensor; the state is made for its width, on its device.
        seed: the seed of the first means.

    Example:
        >>> mixture = Mixture(Gmm.Settings(components=2), torch.zeros(0, 3), seed=0)
        >>> noise = torch.Generator().manual_seed(0)
        >>> mixture.fit(torch.randn(50, 3, generator=noise), noise)
        >>> mixture.sample(5, noise).shape
        torch.Size([5, 3])
    """

    weights: Tensor
    means: Tensor
    variances: Tensor
    fits: Tensor

    def __init__(self, settings: Gmm.Settings, like: Tensor, seed: int) -> None:
        super().__init__()
        self.settings = settings
        self.random_state = int(np.random.default_rng([seed, Stream.GMM_MEANS]).integers(2**32))
        shape = (settings.components, like.shape[1])
        self.register_buffer("weights", torch.zeros(settings.components, device=like.device))
        self.register_buffer("means", torch.zeros(shape, device=like.device))
        self.register_buffer("variances", torch.zeros(shape, device=like.device))
        self.register_buffer("fits", torch.zeros((), dtype=torch.int64, device="cpu"))

    @property
    def fitted(self) -> bool:
        """Whether there were ever as many points as components."""
        return bool(self.fits > 0)

    def fit(self, points: Tensor, noise: torch.Generator) -> None:
        """A few EM iterations, from the last fit's mixture or from new means."""
        if len(points) < self.settings.components:
            return
        inputs, mean, sd = standardised(points.cpu().double())
        data = inputs.numpy()
        if not np.isfinite(data).all():
            raise UserError(
                "gmm: a sentence vector is not finite; lower training.learning_rate, or train in float32 "
                "(training.precision=float32)"
            )
        scale = torch.where(sd > 0, sd, 1.0)
        start = self._last_mixture(mean, scale) if self.fitted else self._first_mixture(data)
        weights, means, variances = _em(data, *start, self.settings.iterations)
        directions = standard_normal(self.means.shape, self.means, noise).cpu().double().numpy()
        _revive(weights, means, variances, directions, len(data))
        self.weights.copy_(torch.from_numpy(weights / weights.sum()))
        self.means.copy_(mean + sd * torch.from_numpy(means))
        self.variances.copy_(sd.square() * torch.from_numpy(variances))
        self.fits += 1

    def _first_mixture(self, data: Floats) -> _State:
        from sklearn.cluster import kmeans_plusplus  # type: ignore[import-untyped]

        count = self.settings.components
        means, _ = kmeans_plusplus(data, count, random_state=self.random_state)
        return np.full(count, 1.0 / count), means, np.ones_like(means)

    def _last_mixture(self, mean: Tensor, scale: Tensor) -> _State:
        """The last fit's mixture, standardised as the points are now."""
        weights = self.weights.cpu().double()
        means = (self.means.cpu() - mean) / scale
        variances = (self.variances.cpu() / scale.square()).clamp(min=_FLOOR)
        return (weights / weights.sum()).numpy(), means.numpy(), variances.numpy()

    def sample(self, rows: int, noise: torch.Generator) -> Tensor:
        """(``rows``, d): a component each, then a point of it."""
        component = torch.multinomial(self.weights, rows, replacement=True, generator=noise)
        noises = standard_normal((rows, self.means.shape[1]), self.means, noise)
        return self.means[component] + self.variances[component].sqrt() * noises


def _revive(weights: Floats, means: Floats, variances: Floats, directions: Floats, points: int) -> None:
    """Splits the heaviest component, in place, for each that is left with fewer than two points."""
    for lost in np.flatnonzero(weights * points < 1.5):
        heaviest = int(weights.argmax())
        # Both halves need two points.
        if weights[heaviest] * points < 4:
            return
        shift = _SPLIT * np.sqrt(variances[heaviest]) * directions[lost]
        means[lost], variances[lost] = means[heaviest] + shift, variances[heaviest]
        means[heaviest] -= shift
        weights[lost] = weights[heaviest] = weights[heaviest] / 2


def _em(data: Floats, weights: Floats, means: Floats, variances: Floats, iterations: int) -> _State:
    """Weights, means and variances after some iterations; fewer if the likelihood no longer rises."""
    from sklearn.exceptions import ConvergenceWarning  # type: ignore[import-untyped]
    from sklearn.mixture import GaussianMixture  # type: ignore[import-untyped]

    mixture = GaussianMixture(
        len(weights),
        covariance_type="diag",
        reg_covar=_FLOOR,
        max_iter=iterations,
        weights_init=weights,
        means_init=means,
        precisions_init=1 / variances,
        random_state=0,  # nothing is drawn where all starting values are given
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a few iterations per step are intended
        mixture.fit(data)
    return mixture.weights_, mixture.means_, mixture.covariances_


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
        learning_rate: AboveZero = 1e-3

    settings: Settings

    def new_distribution(self, store: VectorQueue, seed: int) -> Distribution:
        """An auto-encoder with random weights."""
        return AutoEncoder(self.settings, store.stored, seed)


class AutoEncoder(Distribution):
    """The weights of the auto-encoder, the state of its optimizer, and the scale of the points it was fitted on.

    All weights are in one vector, a buffer: so they are not parameters, which the run's optimizer would train. The
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
