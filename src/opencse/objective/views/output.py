"""Views that make positives of the anchors' vectors, in one forward pass (Park's thesis, section 4.1.1, Table 2).

The gradient flows through anchor and positive. All of them were published as harmful: 41 to 50 on the seven STS tasks
against 74.80 for two dropout masks.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from opencse.objective.noise import centre_and_spread, standard_normal
from opencse.objective.views.base import ClimbsOutputs, DerivesPositives, SentenceView
from opencse.settings import PartSettings


class OutputGaussian(DerivesPositives, SentenceView):
    """``b = a + sigma * eps``, eps standard normal, sigma each dimension's sd over the batch (N - 1, no gradient).

    Published: 50.21 +- 2.01. ``scale`` multiplies sigma.

    Example:
        >>> anchors = torch.tensor([[1.0, 5.0], [3.0, 5.0]])  # the second dimension has no spread
        >>> positives = OutputGaussian().derive(anchors, torch.Generator().manual_seed(0))
        >>> (positives == anchors).tolist()
        [[False, True], [False, True]]
    """

    class Settings(PartSettings):
        """Settings of `OutputGaussian`."""

        kind: Literal["output_gaussian"] = "output_gaussian"
        scale: float = Field(default=1.0, ge=0, allow_inf_nan=False)

    settings: Settings

    def derive(self, anchors: Tensor, noise: torch.Generator) -> Tensor:
        """(N, d) -> (N, d)."""
        return anchors + self.settings.scale * spread(anchors) * standard_normal(anchors.shape, anchors, noise)


class OutputBernoulli(DerivesPositives, SentenceView):
    """``b = m * a``, each dimension of m 0 with probability ``rate``, else 1. Published: 43.54 +- 1.75.

    The other dimensions are not scaled up, which would not change a cosine.

    Example:
        >>> positives = OutputBernoulli().derive(torch.ones(1, 1000), torch.Generator().manual_seed(0))
        >>> 50 < int((positives == 0).sum()) < 150
        True
    """

    class Settings(PartSettings):
        """Settings of `OutputBernoulli`."""

        kind: Literal["output_bernoulli"] = "output_bernoulli"
        rate: float = Field(default=0.1, ge=0, lt=1)

    settings: Settings

    def derive(self, anchors: Tensor, noise: torch.Generator) -> Tensor:
        """(N, d) -> (N, d)."""
        return anchors * keep_mask(anchors.shape, self.settings.rate, anchors, noise)


class OutputMask(DerivesPositives, SentenceView):
    """``b = a`` with ``round(rate * d)`` of its dimensions 0: those of smallest, or of largest, absolute value.

    Published: 46.88 +- 2.65 without the smallest ("trivial"), 43.82 +- 1.20 without the largest ("significant").

    Example:
        >>> view = OutputMask(OutputMask.Settings(rate=0.5))
        >>> view.derive(torch.tensor([[4.0, -1.0, 2.0, -3.0]]), torch.Generator())
        tensor([[ 4.,  0.,  0., -3.]])
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
        dropped = anchors.detach().abs().topk(count, dim=1, largest=self.settings.features == "largest").indices
        return anchors.scatter(1, dropped, 0.0)


class OutputFgsm(ClimbsOutputs, DerivesPositives, SentenceView):
    """``b = a + epsilon * sigma * sign(dL/db)``: a step up the contrastive loss (Goodfellow et al. 2015).

    The gradient is the loss's with respect to the positives, taken at b = a with everything else fixed; sigma is each
    dimension's sd over the batch. Published: 41.22 +- 13.53. ``epsilon`` is our choice, the thesis gives none.

    Example:
        >>> positives = torch.tensor([[1.0, 5.0], [3.0, 5.0]])  # sigma is 1.4142 and 0
        >>> OutputFgsm(OutputFgsm.Settings(epsilon=1.0)).climb_outputs(positives, torch.ones(2, 2))
        tensor([[2.4142, 5.0000],
                [4.4142, 5.0000]])
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
    """(N, d) -> (d,): each dimension's sd over the batch (divided by N - 1; 0 if N is 1), without gradient."""
    return centre_and_spread(vectors.detach())[1]


def keep_mask(shape: tuple[int, ...], rate: float, like: Tensor, noise: torch.Generator) -> Tensor:
    """1 with probability ``1 - rate``, else 0, of ``shape``, on ``like``'s device, of its type."""
    uniform = torch.rand(shape, generator=noise, device=like.device, dtype=torch.float32)
    return (uniform >= rate).to(like.dtype)
