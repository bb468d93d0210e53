"""Views that change the positives' input embeddings, in addition to dropout (Park's thesis, section 4.1.2, Table 3).

They change the token embedding of every token, before positions, LayerNorm and the network's own dropout, and only in
the rows of the positives. They work for any encoder that takes ``inputs_embeds``.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from opencse.objective.noise import standard_normal
from opencse.objective.views.base import ChangesInputs, ClimbsInputs, SentenceView
from opencse.objective.views.output import keep_mask
from opencse.settings import PartSettings


class InputGaussian(ChangesInputs, SentenceView):
    """``e + N(0, sd)``, drawn for every dimension of every token. Published: 75.57 +- .70.

    (SimCSE there: 74.80 +- 1.12.)

    Example:
        >>> words = torch.ones(1, 2, 3)  # the input embeddings of one positive with two tokens
        >>> noise = torch.Generator().manual_seed(0)
        >>> bool((InputGaussian().disturb(words, noise) - words).abs().max() < 0.01)
        True
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
    """``e * N(1, sd)``, dimension by dimension. Published: 75.17 +- 1.18.

    Example:
        >>> words = torch.ones(1, 2, 3)  # the input embeddings of one positive with two tokens
        >>> noise = torch.Generator().manual_seed(0)
        >>> bool((InputGaussianDropout().disturb(words, noise) - words).abs().max() < 0.01)
        True
    """

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
    74.34 +- .81, and 74.27 +- 1.17 for dimensions. The other dimensions are scaled up as in dropout, which the thesis
    leaves open.

    Example:
        >>> words = torch.ones(1, 2, 3)  # the input embeddings of one positive with two tokens
        >>> noise = torch.Generator().manual_seed(0)
        >>> view = InputBernoulli(InputBernoulli.Settings(rate=0.5))
        >>> sorted(set(view.disturb(words, noise).flatten().tolist()))
        [0.0, 2.0]
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
        return embeddings * keep_mask(shape, self.settings.rate, embeddings, noise) / (1 - self.settings.rate)


class InputFgsm(ClimbsInputs, SentenceView):
    """``e + epsilon * sign(dL/de)``: a step up the contrastive loss (Goodfellow et al. 2015).

    A pass of its own finds the gradient, under the dropout masks of the pass that counts. Published: 74.75 +- 1.21.
    ``epsilon`` is our choice, the thesis gives none.

    Example:
        >>> gradient = torch.tensor([[[0.2, -0.1, 0.0]]])
        >>> InputFgsm(InputFgsm.Settings(epsilon=0.5)).climb_inputs(torch.zeros(1, 1, 3), gradient)
        tensor([[[ 0.5000, -0.5000,  0.0000]]])
    """

    class Settings(PartSettings):
        """Settings of `InputFgsm`."""

        kind: Literal["input_fgsm"] = "input_fgsm"
        epsilon: float = Field(default=0.001, ge=0, allow_inf_nan=False)

    settings: Settings

    def climb_inputs(self, embeddings: Tensor, gradient: Tensor) -> Tensor:
        """(N, length, hidden) -> the same shape."""
        return embeddings + self.settings.epsilon * gradient.sign()
