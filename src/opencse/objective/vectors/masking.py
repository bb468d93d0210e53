"""Masked copies of a step's texts: which tokens are hidden, and what they are replaced by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from opencse.kernels.states import MaskedTokens
from opencse.text.tokenizer import Tokenizer, Tokens, moved

Masking = Literal["bert", "all"]
"""What chosen tokens become: 80% [MASK], 10% random and 10% unchanged (BERT's rule), or all [MASK]."""


@dataclass(frozen=True)
class MaskedCopy:
    """A masked copy of some texts, and the ids that it hides.

    Attributes:
        masked: the copy's tokens, and which of their positions are to be predicted.
        labels: (M,) ids of the original tokens at these positions.
    """

    masked: MaskedTokens
    labels: Tensor

    @property
    def labelled(self) -> MaskedTokens:
        """The copy for a forward that returns losses."""
        return replace(self.masked, labels=self.labels)

    def to(self, device: torch.device) -> MaskedCopy:
        """The same on ``device``; the positions stay where they can be counted without waiting for a GPU."""
        return MaskedCopy(replace(self.masked, tokens=self.masked.tokens.to(device)), moved(self.labels, device))

    def rows(self, start: int, end: int) -> MaskedCopy:
        """The copy of some of the texts, padded no further than the longest of them."""
        tokens, positions = self.masked.tokens.rows(start, end), self.masked.positions
        longest = int(tokens.attention_mask.sum(dim=1).max())
        first, count = int(positions[:start].sum()), int(positions[start:end].sum())
        shortened = Tokens(tokens.input_ids[:, :longest], tokens.attention_mask[:, :longest])
        return MaskedCopy(MaskedTokens(shortened, positions[start:end, :longest]), self.labels[first : first + count])


def mask_tokens(
    tokens: Tokens, tokenizer: Tokenizer, rate: float, random: np.random.Generator, masking: Masking = "bert"
) -> MaskedCopy:
    """Hides a random choice of tokens.

    Every real token that is not special is chosen with probability ``rate``; M varies, and may be 0. By BERT's rule
    80% of the chosen tokens become [MASK], 10% a random ordinary token, and 10% stay.

    Args:
        tokens: (rows, length).
        tokenizer: the tokenizer that made them.
        rate: share of the tokens to choose.
        random: the generator of all draws.
        masking: what chosen tokens become.
    """
    mask = tokenizer.hf.mask_token_id
    special = np.asarray(tokenizer.hf.all_special_ids)
    ids = tokens.input_ids.numpy().copy()
    usable = tokens.attention_mask.numpy().astype(bool) & ~np.isin(ids, special)
    hidden = usable & (random.random(ids.shape) < rate)
    labels = ids[hidden]
    if masking == "all":
        ids[hidden] = mask
    else:
        # BERT's code draws from the whole vocabulary, special tokens too.
        ordinary = np.setdiff1d(np.arange(tokenizer.vocabulary_size), special)
        fate = random.random(len(labels))
        replaced = np.where(fate < 0.8, mask, labels)
        ids[hidden] = np.where(fate >= 0.9, random.choice(ordinary, len(labels)), replaced)
    masked = MaskedTokens(Tokens(torch.from_numpy(ids), tokens.attention_mask), torch.from_numpy(hidden))
    return MaskedCopy(masked, torch.from_numpy(labels))
