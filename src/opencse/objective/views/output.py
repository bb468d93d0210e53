"""Positives made of the anchors' own vectors: one forward instead of two (Park's thesis, section 4.1.1, Table 2).

All of them were published as harmful: 41 to 50 on the seven STS tasks against 74.80 for two dropout masks.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from opencse.objective.noise import centre_and_spread, standard_normal
from opencse.objective.views.base import ClimbsOutputs, DerivesPositives
from opencse.objective.views.sentences import SentenceView
from opencse.settings import PartSettings


class OutputView(DerivesPositives, SentenceView):
    """A sentence's own vector a_i, changed: ``b_i = g(a_i)``; the gradient flows through both."""


class OutputGaussian(OutputView):
    """``b = a + sigma * eps``, eps standard normal, sigma each dimension's sd over the batch (N - 1, no gradient).

    Published: 50.21 +- 2.01. ``scale`` multiplies sigma.
    """

    class Settings(PartSettings):
        """Settings of `OutputGaussian`."""

        kind: Literal["output_gaussian"] = "output_gaussian"
        scale: float = Field(default=1.0, ge=0, allow_inf_nan=False)

    settings: Settings

    def derive(self, anchors: Tensor, noise: torch.Generator) -> Tensor:
        """(N, d) -> (N, d)."""
        return anchors + self.settings.scale * spread(anchors) * standard_normal(anchors.shape, anchors, noise)


class OutputBernoulli(OutputView):
    """``b = m * a``, each dimension of m 0 with probability ``rate``, else 1. Published: 43.54 +- 1.75.

    Kept dimensions are not scaled up, which a cosine would not see.
    """

    class Settings(PartSettings):
        """Settings of `OutputBernoulli`."""

        kind: Literal["output_bernoulli"] = "output_bernoulli"
        rate: float = Field(default=0.1, ge=0, lt=1)

    settings: Settings

    def derive(self, anchors: Tensor, noise: torch.Generator) -> Tensor:
        """(N, d) -> (N, d)."""
        return anchors * kept(anchors.shape, self.settings.rate, anchors, noise)


class OutputMask(OutputView):
    """``b = a`` with ``round(rate * d)`` of its dimensions 0: those of smallest, or of largest, absolute value.

    Published: 46.88 +- 2.65 without the smallest ("trivial"), 43.82 +- 1.20 without the largest ("significant").
    """

    class Settings(PartSettings):
        """Settings of `OutputMask`."""

        kind: Literal["output_mask"] = "output_mask"
        rate: float = Field(default=0.1, ge=0, lt=1)
        features: Literal["smallest", "largest"] = "smallest"

    settings: Settings

    def derive(self, anchors: Tensor, noise: torch.Generator) -> Tensor:
        """(N, d) -> (N, d); nothing is drawn."""
        del noise
        count = round(self.settings.rate * anchors.shape[1])
        chosen = anchors.detach().abs().topk(count, dim=1, largest=self.settings.features == "largest").indices
        return anchors.scatter(1, chosen, 0.0)


class OutputFgsm(ClimbsOutputs, OutputView):
    """``b = a + epsilon * sigma * sign(dL/db)``: a step up the contrastive loss (Goodfellow et al. 2015).

    The gradient is the loss's with respect to the positives, taken at b = a with everything else fixed; sigma is each
    dimension's sd over the batch. Published: 41.22 +- 13.53. ``epsilon`` is our choice, the thesis gives none.
    """

    class Settings(PartSettings):
        """Settings of `OutputFgsm`."""

        kind: Literal["output_fgsm"] = "output_fgsm"
        epsilon: float = Field(default=0.01, ge=0, allow_inf_nan=False)

    settings: Settings

    def derive(self, anchors: Tensor, noise: torch.Generator) -> Tensor:
        """The anchors as they are: where the gradient is taken."""
        del noise
        return anchors

    def climb_outputs(self, positives: Tensor, gradient: Tensor) -> Tensor:
        """(N, d) -> (N, d)."""
        return positives + self.settings.epsilon * spread(positives) * gradient.sign()


def spread(vectors: Tensor) -> Tensor:
    """(N, d) -> (d,): each dimension's sd over the batch (N - 1 below the sum; 0 if N is 1), without gradient."""
    return centre_and_spread(vectors.detach())[1]


def kept(shape: tuple[int, ...], rate: float, like: Tensor, noise: torch.Generator) -> Tensor:
    """1 with probability ``1 - rate``, else 0, of ``shape``, on ``like``'s device, of its type."""
    drawn = torch.rand(shape, generator=noise, device=like.device, dtype=torch.float32)
    return (drawn >= rate).to(like.dtype)
