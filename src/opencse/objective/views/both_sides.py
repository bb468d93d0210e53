"""The view of ConSERT: anchor and positive each have a change of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.context import Context
from opencse.objective.views.base import ChangesInputs, ChangesTokens, SentenceView, word_numbers
from opencse.objective.views.output import keep_mask
from opencse.settings import PartSettings
from opencse.text.tokenizer import Ids, TokenisedText

SideChange = Literal["none", "shuffle", "span", "token_cutoff", "feature_cutoff"]


class BothSides(ChangesTokens, ChangesInputs, SentenceView):
    """A change of the anchor and one of the positive (ConSERT, section 3.2).

    - ``shuffle``: the text's tokens in another order; special tokens stay where they are. ConSERT permutes the
      positions in place of the tokens, which gives the same token vectors, and permutes those of [CLS] and [SEP] too.
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
            rate: of the cutoffs and of the tokens outside a span.
        """

        kind: Literal["both_sides"] = "both_sides"
        anchor: SideChange = "feature_cutoff"
        positive: SideChange = "shuffle"
        rate: float = Field(default=0.2, ge=0, lt=1)

    settings: Settings

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.padding: int | None = None

    def check(self, context: Context) -> None:
        """Refuses spans of texts in a template, of which nothing would be left."""
        super().check(context)
        templated = context.encoder is not None and context.encoder.tokenizer.template is not None
        if templated and "span" in (self.settings.anchor, self.settings.positive):
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
            if self.padding is None:
                raise RuntimeError("the both_sides view was not begun, so it does not know the padding token")
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
            return embeddings * (ranks >= int(rate * hidden)).unsqueeze(1).to(embeddings.dtype)
        return embeddings


def _shuffled(text: TokenisedText, random: np.random.Generator) -> Ids:
    """The ids with those of the words in another order."""
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
