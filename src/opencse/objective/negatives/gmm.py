"""Negatives sampled from a Gaussian mixture that is fitted on the outputs of the last steps."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from opencse.arrays import Floats
from opencse.encoder.encoder import SentenceEncoder
from opencse.environment import require_packages
from opencse.errors import UserError
from opencse.objective.negatives.base import Distribution, Fitted, FittedSettings, standardised
from opencse.objective.negatives.vector_queue import VectorQueue
from opencse.objective.noise import standard_normal
from opencse.streams import Stream

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
