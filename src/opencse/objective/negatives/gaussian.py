"""Negatives drawn from a Gaussian with the mean and spread of the batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from opencse.errors import UserError
from opencse.objective.columns import Pairs, Scoring, VectorColumns
from opencse.objective.context import Context
from opencse.objective.contrast import contrast
from opencse.objective.negatives.base import Generated, GeneratedSettings
from opencse.objective.noise import centre_and_spread, standard_normal
from opencse.objective.vectors.step import Representations
from opencse.settings import Settings

DRAWN_BYTES = 64 * 2**20
"""Most bytes of noise that ``covariance = "full"`` draws at once."""


class AscendSettings(Settings):
    """How samples are moved up the gradient of the contrast.

    Attributes:
        steps: how many times.
        rate: length of each move.

    Example:
        >>> AscendSettings(steps=2).rate
        0.001
    """

    steps: int = Field(default=1, ge=1, le=1_000)
    rate: float = Field(default=1e-3, gt=0, allow_inf_nan=False)


class Gaussian(Generated):
    """Gaussian noise sampling: vectors from N(mu_z, sigma_z) of the batch (Park's thesis, section 4.3; Tables 5, 7).

    With z_1 ... z_N the anchors' vectors after the training head, mu and sigma their mean and standard deviation in
    each dimension, and eps_k standard normal noise, the columns of anchor i are ``sim(a_i, g_k) / tau``, weight
    ``weight`` each, for k = 1 ... ``count`` times N::

        g_k = m + s * eps_k                 m = mu or 0 (``mean``), s = sigma or 1 (``sd``), by dimension

    ``mean`` and ``sd`` together are the four rows of Table 7, ``count`` the axis of Figure 10. The vectors are drawn
    again at every step, the same for all anchors; the statistics take no gradient. Under cosine a scale common to all
    dimensions has no effect, so with ``mean = "zero"`` only the directions of the noise count.

    The thesis's variant "filtered with covariance matrix" takes "the covariance matrix from the anchors in the batch"
    and its "inner product with sampled noise". With Sigma that (d, d) matrix, of rank N - 1 at most and never made:

    - ``covariance = "product"``: ``g_k = Sigma (m + s * eps_k)``, as the words say. Its covariance is
      ``Sigma s^2 Sigma``, so directions in which the batch varies much count more than they do in the batch.
    - ``covariance = "full"``: ``g_k = m + Sigma^(1/2) eps_k``, the Gaussian with the batch's own covariance, which
      takes the place of ``sd``. It is drawn as ``m + (1 / sqrt(N - 1)) sum_j (z_j - mu) eps_kj``.

    ``ascend`` moves the samples before they are used, up the gradient of the contrast of the positives with them alone
    (DCLR, Zhou et al. 2022, arXiv:2205.00656, which draws from N(0, 1): ``mean = "zero"``, ``sd = "one"``)::

        g_k <- g_k + rate * u_k / |u_k|,   u_k = d/dg_k mean_i -log( e^{sim(a_i, b_i)/tau} / (e^{sim(a_i, b_i)/tau} +
                                                   sum_k e^{sim(a_i, g_k)/tau}) ),   ``steps`` times

    sigma and Sigma divide by N - 1, which the thesis leaves open. One anchor alone has sigma 0.

    Example:
        >>> from opencse.objective.columns import Scoring
        >>> from opencse.objective.vectors.step import Representations
        >>> reps = Representations.of(torch.eye(4), torch.eye(4))
        >>> source = Gaussian(Gaussian.Settings(count=0.5))
        >>> source.columns(reps, Scoring()).shape  # 2 columns for each of 4 anchors
        (4, 2)
    """

    class Settings(GeneratedSettings):
        """Settings of `Gaussian`."""

        kind: Literal["gaussian"] = "gaussian"
        mean: Literal["batch", "zero"] = "batch"
        sd: Literal["batch", "one"] = "batch"
        covariance: Literal["none", "full", "product"] = "none"
        ascend: AscendSettings | None = None

        @model_validator(mode="after")
        def _one_scale(self) -> Gaussian.Settings:
            if self.covariance == "full" and self.sd == "one":
                raise ValueError('covariance = "full" holds the scale of every dimension; leave sd at "batch"')
            return self

    settings: Settings

    def check(self, context: Context) -> None:
        """Refuses to move samples up a gradient whose temperature is not known here."""
        super().check(context)
        if self.settings.ascend is not None and context.objective.learned_temperature is not None:
            raise UserError(
                f"{self.kind}: ascend follows the contrast at a fixed temperature; leave objective.learned_temperature "
                "or ascend out"
            )

    def columns(self, reps: Representations, scoring: Scoring) -> VectorColumns:
        """(N, K) columns, moved up the gradient if the settings say so."""
        columns = super().columns(reps, scoring)
        ascend = self.settings.ascend
        if ascend is None or not len(columns.right):
            return columns
        positive = Pairs(reps.anchor.detach(), reps.positive.detach(), scoring)
        samples = columns.right
        for _ in range(ascend.steps):
            samples = samples.detach().requires_grad_()
            with torch.enable_grad():
                loss = contrast(positive, [VectorColumns(positive.left, samples, scoring)], [[0]]).loss
                (up,) = torch.autograd.grad(loss, samples)
            length = up.norm(dim=1, keepdim=True)
            samples = samples.detach() + ascend.rate * torch.where(length > 0, up / length, up)
        return replace(columns, right=samples)

    def generate(self, anchors: Tensor, rows: int, noise: torch.Generator) -> Tensor:
        """Draws (``rows``, d) vectors: g of the class's formula."""
        settings = self.settings
        mean, sd = centre_and_spread(anchors)
        deviations = (anchors - mean) / max(1, len(anchors) - 1) ** 0.5  # Sigma = deviations^T deviations
        location = mean if settings.mean == "batch" else torch.zeros_like(mean)
        samples: Tensor
        if settings.covariance == "full":
            at_once = max(1, DRAWN_BYTES // (len(anchors) * anchors.element_size()))  # never (K, N) of a large batch
            sizes = [min(at_once, rows - start) for start in range(0, rows, at_once)]
            return torch.cat(
                [location + standard_normal((size, len(anchors)), anchors, noise) @ deviations for size in sizes]
            )
        noises = standard_normal((rows, anchors.shape[1]), anchors, noise)
        samples = location + (noises * sd if settings.sd == "batch" else noises)
        if settings.covariance == "product":
            samples = (samples @ deviations.T) @ deviations
        return samples
