"""Positives whose input embeddings are disturbed, on top of dropout (Park's thesis, section 4.1.2, Table 3).

What is disturbed is the token embedding of every token, before positions, LayerNorm and the network's own dropout, and
only in the rows of the positives. It works for any encoder that takes ``inputs_embeds``.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from opencse.objective.noise import standard_normal
from opencse.objective.views.base import ChangesInputs, ClimbsInputs
from opencse.objective.views.output import kept
from opencse.objective.views.sentences import SentenceView
from opencse.settings import PartSettings


class InputGaussian(ChangesInputs, SentenceView):
    """``e + N(0, sd)``, drawn anew for every dimension of every token. Published: 75.57 +- .70.

    (SimCSE there: 74.80 +- 1.12.)
    """

    class Settings(PartSettings):
        """Settings of `InputGaussian`."""

        kind: Literal["input_gaussian"] = "input_gaussian"
        sd: float = Field(default=0.001, ge=0, allow_inf_nan=False)

    settings: Settings

    def disturb(self, embeddings: Tensor, noise: torch.Generator) -> Tensor:
        """(N, length, hidden) -> the same shape."""
        return embeddings + self.settings.sd * standard_normal(embeddings.shape, embeddings, noise)


class InputGaussianDropout(ChangesInputs, SentenceView):
    """``e * N(1, sd)``, dimension by dimension. Published: 75.17 +- 1.18."""

    class Settings(PartSettings):
        """Settings of `InputGaussianDropout`."""

        kind: Literal["input_gaussian_dropout"] = "input_gaussian_dropout"
        sd: float = Field(default=0.001, ge=0, allow_inf_nan=False)

    settings: Settings

    def disturb(self, embeddings: Tensor, noise: torch.Generator) -> Tensor:
        """(N, length, hidden) -> the same shape."""
        return embeddings * (1.0 + self.settings.sd * standard_normal(embeddings.shape, embeddings, noise))


class InputBernoulli(ChangesInputs, SentenceView):
    """``m * e / (1 - rate)``, each dimension of m 0 with probability ``rate``, else 1: dropout once more.

    ``features = true`` drops whole dimensions of a sentence, the same for all its tokens (ConSERT's cutoff). Published:
    74.34 +- .81, and 74.27 +- 1.17 for dimensions. Kept dimensions are scaled up as in dropout, which the thesis leaves
    open.
    """

    class Settings(PartSettings):
        """Settings of `InputBernoulli`."""

        kind: Literal["input_bernoulli"] = "input_bernoulli"
        rate: float = Field(default=0.1, ge=0, lt=1)
        features: bool = False

    settings: Settings

    def disturb(self, embeddings: Tensor, noise: torch.Generator) -> Tensor:
        """(N, length, hidden) -> the same shape."""
        n, length, hidden = embeddings.shape
        shape = (n, 1 if self.settings.features else length, hidden)
        return embeddings * kept(shape, self.settings.rate, embeddings, noise) / (1 - self.settings.rate)


class InputFgsm(ClimbsInputs, SentenceView):
    """``e + epsilon * sign(dL/de)``: a step up the contrastive loss (Goodfellow et al. 2015).

    A pass of its own finds the gradient, under the very dropout masks of the pass that counts. Published: 74.75 +-
    1.21. ``epsilon`` is our choice, the thesis gives none.
    """

    class Settings(PartSettings):
        """Settings of `InputFgsm`."""

        kind: Literal["input_fgsm"] = "input_fgsm"
        epsilon: float = Field(default=0.001, ge=0, allow_inf_nan=False)

    settings: Settings

    def climb_inputs(self, embeddings: Tensor, gradient: Tensor) -> Tensor:
        """(N, length, hidden) -> the same shape."""
        return embeddings + self.settings.epsilon * gradient.sign()
