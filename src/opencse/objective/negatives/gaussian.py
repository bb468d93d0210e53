"""Negatives drawn from a Gaussian with the mean and spread of the batch."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import model_validator
from torch import Tensor

from opencse.objective.negatives.base import Generated, GeneratedSettings
from opencse.objective.noise import centre_and_spread, standard_normal

DRAWN_BYTES = 64 * 2**20
"""Most bytes of noise that ``covariance = "full"`` draws at once."""


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

        @model_validator(mode="after")
        def _one_scale(self) -> Gaussian.Settings:
            if self.covariance == "full" and self.sd == "one":
                raise ValueError('covariance = "full" holds the scale of every dimension; leave sd at "batch"')
            return self

    settings: Settings

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
