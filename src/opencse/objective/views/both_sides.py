"""The view of ConSERT: anchor and positive each have a change of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from opencse.objective.views.base import ChangesInputs, ChangesTokens, SentenceView, word_numbers
from opencse.objective.views.output import keep_mask
from opencse.settings import PartSettings
from opencse.text.tokenizer import Ids, TokenisedText

SideChange = Literal["none", "shuffle", "token_cutoff", "feature_cutoff"]


class BothSides(ChangesTokens, ChangesInputs, SentenceView):
    """A change of the anchor and one of the positive (ConSERT, section 3.2).

    - ``shuffle``: the text's tokens in another order; special tokens stay where they are. ConSERT permutes the
      positions in place of the tokens, which gives the same token vectors, and permutes those of [CLS] and [SEP] too.
    - ``token_cutoff``: each token's input embedding is 0 with probability ``rate``.
    - ``feature_cutoff``: ``rate`` of the input dimensions are 0 in all tokens of a text, a whole number of them.
    - ``none``: the text as it is; dropout may still differ.

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
            rate: of the cutoffs.
        """

        kind: Literal["both_sides"] = "both_sides"
        anchor: SideChange = "feature_cutoff"
        positive: SideChange = "shuffle"
        rate: float = Field(default=0.2, ge=0, lt=1)

    settings: Settings

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

    @staticmethod
    def _tokens(texts: Sequence[TokenisedText], change: SideChange, random: np.random.Generator) -> Sequence[Ids]:
        if change != "shuffle":
            return [text.ids for text in texts]
        return [_shuffled(text, random) for text in texts]

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
