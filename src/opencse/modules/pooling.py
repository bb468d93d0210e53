"""Pools the token vectors of a sentence into one vector."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

LEAST_WEIGHT = 1e-9
"""Smallest sum of the weights of a text's tokens, as in sentence-transformers."""


class Pooling(StrEnum):
    """How the hidden states of a sentence become one vector (SimCSE, Table 6 and section 4).

    With h_l the hidden states of layer l (h_0 the output of the embedding layer, h_L the last) and the
    mean taken over all real tokens, [CLS] and [SEP] included:

    - ``cls``: h_L of the first token.
    - ``mean``: mean of h_L.
    - ``first_last_0``: mean of (h_0 + h_L) / 2, the paper's "first-last avg." (published 56.70 for BERT-base).
    - ``first_last_1``: mean of (h_1 + h_L) / 2, what the authors' code computes since January 2022 (60.73).
    - ``top2``: mean of (h_{L-1} + h_L) / 2.
    - ``mask``: h_L of the last mask token; the encoder's template puts it into every text (PromptBERT).
    - ``max``, ``last_token``, and two other means of h_L, for models of other libraries: ``weightedmean``, in which the
      t-th token counts t times (SGPT), and ``mean_sqrt_len_tokens``, the sum over the root of the number of tokens.

    Example:
        >>> import torch
        >>> states = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [9.0, 9.0]]])  # one sentence, its last token is padding
        >>> Pooling.MEAN([states], torch.tensor([[1, 1, 0]])).tolist()
        [[2.0, 3.0]]
        >>> Pooling("first_last_0").layers(12)
        (0, 12)
    """

    CLS = "cls"
    MEAN = "mean"
    FIRST_LAST_0 = "first_last_0"
    FIRST_LAST_1 = "first_last_1"
    TOP2 = "top2"
    MAX = "max"
    LAST_TOKEN = "last_token"
    MASK = "mask"
    WEIGHTED_MEAN = "weightedmean"
    MEAN_SQRT_LEN = "mean_sqrt_len_tokens"

    @property
    def is_mean(self) -> bool:
        """Whether it is a mean over tokens, in which they may count differently."""
        return self not in (Pooling.CLS, Pooling.LAST_TOKEN, Pooling.MAX, Pooling.MASK)

    @property
    def may_leave_out_prompt(self) -> bool:
        """Whether it can be computed of the tokens after a prompt; the others read a token of a certain place."""
        return self not in (Pooling.CLS, Pooling.MASK)

    def layers(self, depth: int) -> tuple[int, ...]:
        """The layers averaged, from 0 (embedding output) to ``depth`` (last)."""
        first = {Pooling.FIRST_LAST_0: 0, Pooling.FIRST_LAST_1: 1, Pooling.TOP2: depth - 1}.get(self)
        return (depth,) if first is None else (first, depth)

    def __call__(self, states: Sequence[Tensor], mask: Tensor, weights: Tensor | None = None) -> Tensor:
        """Pools hidden states into one vector per sentence.

        Args:
            states: the hidden states to average, each (rows, length, hidden).
            mask: (rows, length), 1 for the tokens that count; padding on the right. For ``mask``: 1 for mask tokens, of
                which each row has one.
            weights: (rows, length), from 0 on, by which the states are multiplied; means are then divided by the sum of
                the weights (``mean_sqrt_len_tokens`` by its root). None if all tokens count the same.

        Returns:
            (rows, hidden), float32 where the states are of lower precision; a mean is zeros for a row without tokens.
        """
        import torch

        wide = [s.float() if s.dtype in (torch.bfloat16, torch.float16) else s for s in states]
        hidden = wide[0] if len(wide) == 1 else torch.stack(wide).mean(dim=0)
        if weights is not None:
            hidden = hidden * weights.unsqueeze(-1).to(hidden.dtype)
        if self is Pooling.CLS:
            return hidden[:, 0]
        if self in (Pooling.LAST_TOKEN, Pooling.MASK):
            last = (mask * torch.arange(mask.shape[1], device=mask.device)).amax(dim=1)
            return hidden[torch.arange(hidden.shape[0], device=hidden.device), last]
        real = mask.unsqueeze(-1).to(hidden.dtype)
        if self is Pooling.MAX:
            return hidden.masked_fill(real == 0, float("-inf")).amax(dim=1)
        counts = real
        if self is Pooling.WEIGHTED_MEAN:
            counts = real * torch.arange(1, mask.shape[1] + 1, device=mask.device).unsqueeze(-1)
        if weights is None:
            total = counts.sum(dim=1).clamp(min=1)
        else:
            total = (real * weights.unsqueeze(-1).to(hidden.dtype)).sum(dim=1).clamp(min=LEAST_WEIGHT)
        return (hidden * counts).sum(dim=1) / (total.sqrt() if self is Pooling.MEAN_SQRT_LEN else total)
