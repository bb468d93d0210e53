"""Views that change vectors: the input embeddings of a text, or the positive's vector made of the anchor's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.similarity import centre_and_spread, standard_normal
from opencse.objective.views.base import (
    ChangesInputs,
    ChangesTokens,
    ClimbsInputs,
    ClimbsOutputs,
    DerivesPositives,
    SentenceView,
    word_numbers,
)
from opencse.settings import FromZero, PartSettings, Rate
from opencse.text.tokenizer import Ids, TokenisedText


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
        scale: FromZero = 1.0

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
        rate: Rate = 0.1

    settings: Settings

    def derive(self, anchors: Tensor, noise: torch.Generator) -> Tensor:
        """(N, d) -> (N, d)."""
        return anchors * keep_mask(anchors.shape, self.settings.rate, anchors, noise)


class OutputMask(DerivesPositives, SentenceView):
    """``b = a`` with ``round(rate * d)`` of its dimensions 0, of smallest or of largest absolute value.

    Published: 46.88 +- 2.65 without the smallest ("trivial"), 43.82 +- 1.20 without the largest ("significant").

    Example:
        >>> view = OutputMask(OutputMask.Settings(rate=0.5))
        >>> view.derive(torch.tensor([[4.0, -1.0, 2.0, -3.0]]), torch.Generator())
        tensor([[ 4.,  0.,  0., -3.]])
    """

    class Settings(PartSettings):
        """Settings of `OutputMask`."""

        kind: Literal["output_mask"] = "output_mask"
        rate: Rate = 0.1
        features: Literal["smallest", "largest"] = "smallest"

    settings: Settings

    def derive(self, anchors: Tensor, noise: torch.Generator) -> Tensor:
        """(N, d) -> (N, d); nothing is drawn."""
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
        epsilon: FromZero = 0.01

    settings: Settings
    cannot = (*ClimbsOutputs.cannot, *DerivesPositives.cannot)

    def derive(self, anchors: Tensor, noise: torch.Generator) -> Tensor:
        """The anchors as they are: where the gradient is taken."""
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
        sd: FromZero = 0.001

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
        sd: FromZero = 0.001

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
        rate: Rate = 0.1
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
        epsilon: FromZero = 0.001

    settings: Settings

    def climb_inputs(self, embeddings: Tensor, gradient: Tensor) -> Tensor:
        """(N, length, hidden) -> the same shape."""
        return embeddings + self.settings.epsilon * gradient.sign()


SideChange = Literal["none", "shuffle", "span", "token_cutoff", "feature_cutoff"]


class BothSides(ChangesTokens, ChangesInputs, SentenceView):
    """A change of the anchor and one of the positive (ConSERT, section 3.2).

    - ``shuffle``: the text's tokens in another order; special tokens stay where they are. ConSERT permutes the
      positions in place of the tokens, which gives the same token vectors, and [CLS] and [SEP] with them.
    - ``span``: a run of tokens stays, a share 1 - ``rate`` of the text's (at least 1), special tokens included; all
      others are [PAD], which is attended to. So the authors' code has it, whose mask of them comes too late; the paper
      has no span. Shen et al. 2020 (arXiv:2009.13818) drop a span instead.
    - ``token_cutoff``: each token's input embedding is 0 with probability ``rate``.
    - ``feature_cutoff``: ``rate`` of the input dimensions are 0 in all tokens of a text, a whole number of them.
    - ``none``: the text as it is; dropout may still differ.

    The code's cutoffs come after the embedding layer's LayerNorm, and its token cutoff drops an exact share of a text's
    tokens; here they are of the token embeddings, before positions, as of every view that changes inputs.

    The best of the paper is feature cutoff against shuffled tokens, without the backbone's dropout. Vectors of the
    anchors without dropout (SimCSE++) are of the shuffled text, and of input embeddings as they are.

    Example:
        >>> view = BothSides(BothSides.Settings(anchor="feature_cutoff", rate=0.5))
        >>> words = torch.ones(1, 2, 4)  # the input embeddings of one anchor with two tokens
        >>> view.disturb_anchors(words, torch.Generator().manual_seed(0)).sum(dim=2)
        tensor([[2., 2.]])
    """

    class Settings(PartSettings):
        """Settings of `BothSides`.

        Attributes:
            anchor: the change of the anchor.
            positive: the change of the positive.
            rate: the rate of the cutoffs and of the tokens outside a span.
        """

        kind: Literal["both_sides"] = "both_sides"
        anchor: SideChange = "feature_cutoff"
        positive: SideChange = "shuffle"
        rate: Rate = 0.2

    settings: Settings
    padding: int

    def check_encoder(self, encoder: SentenceEncoder, model: str) -> None:
        """Refuses spans of texts in a template, of which nothing would be left."""
        if encoder.tokenizer.template is not None and "span" in (self.settings.anchor, self.settings.positive):
            raise UserError(
                f"the view {self.kind}: a span would leave out the encoder's template, and the mask that is pooled; "
                "choose another change, or an encoder without a template"
            )

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Looks up the padding token."""
        super().begin(encoder, batch_size=batch_size, seed=seed)
        self.padding = encoder.tokenizer.hf.pad_token_id

    def positives(self, texts: Sequence[TokenisedText], random: np.random.Generator) -> Sequence[Ids]:
        """Shuffles the positives, if the settings say so."""
        return self._tokens(texts, self.settings.positive, random)

    def changed_anchors(self, texts: Sequence[TokenisedText], random: np.random.Generator) -> Sequence[Ids]:
        """Shuffles the anchors, if the settings say so."""
        return self._tokens(texts, self.settings.anchor, random)

    def disturb(self, embeddings: Tensor, noise: torch.Generator) -> Tensor:
        """(N, length, hidden) -> the same shape."""
        return self._inputs(embeddings, self.settings.positive, noise)

    def disturb_anchors(self, embeddings: Tensor, noise: torch.Generator) -> Tensor:
        """(N, length, hidden) -> the same shape."""
        return self._inputs(embeddings, self.settings.anchor, noise)

    def _tokens(self, texts: Sequence[TokenisedText], change: SideChange, random: np.random.Generator) -> Sequence[Ids]:
        if change == "shuffle":
            return [_shuffled(text, random) for text in texts]
        if change == "span":
            return [_span(text.ids, self.settings.rate, self.padding, random) for text in texts]
        return [text.ids for text in texts]

    def _inputs(self, embeddings: Tensor, change: SideChange, noise: torch.Generator) -> Tensor:
        n, length, hidden = embeddings.shape
        rate = self.settings.rate
        if change == "token_cutoff":
            # a draw for each number, so that chunks of rows have the draws of all rows at once
            return embeddings * keep_mask((n, length, hidden), rate, embeddings, noise)[:, :, :1]
        if change == "feature_cutoff":
            draws = torch.rand(n, hidden, generator=noise, device=embeddings.device)
            ranks = draws.argsort(dim=1).argsort(dim=1)  # (n, hidden) of each dimension
            # By rank, not by a draw for each: every text loses the same number of dimensions.
            return embeddings * (ranks >= int(rate * hidden)).unsqueeze(1).to(embeddings.dtype)
        return embeddings


def _shuffled(text: TokenisedText, random: np.random.Generator) -> Ids:
    """The ids, with the words' ids in another order."""
    words = np.flatnonzero(word_numbers(text) >= 0)
    ids = text.ids.copy()
    ids[words] = text.ids[random.permutation(words)]
    return ids


def _span(ids: Ids, rate: float, padding: int, random: np.random.Generator) -> Ids:
    """The ids with ``padding`` in the place of all outside a run of a share 1 - ``rate``."""
    length = max(int(len(ids) * (1 - rate)), 1)
    start = int(random.integers(len(ids) - length + 1))
    span = np.full_like(ids, padding)
    span[start : start + length] = ids[start : start + length]
    return span
