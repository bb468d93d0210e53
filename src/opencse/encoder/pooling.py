"""From token vectors to one vector a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import torch
from torch import Tensor


class Pooling(StrEnum):
    """How the hidden states of a sentence become one vector (SimCSE, Table 6 and section 4).

    With h_l the hidden states of layer l (h_0 the output of the embedding layer, h_L the last) and the
    mean taken over all real tokens, [CLS] and [SEP] included:

    - ``cls``: h_L of the first token.
    - ``mean``: mean of h_L.
    - ``first_last_0``: mean of (h_0 + h_L) / 2, the paper's "first-last avg." (published 56.70 for BERT-base).
    - ``first_last_1``: mean of (h_1 + h_L) / 2, what the authors' code computes since January 2022 (60.73).
    - ``top2``: mean of (h_{L-1} + h_L) / 2.
    - ``max``, ``last_token``: of h_L; for models from elsewhere.
    """

    CLS = "cls"
    MEAN = "mean"
    FIRST_LAST_0 = "first_last_0"
    FIRST_LAST_1 = "first_last_1"
    TOP2 = "top2"
    MAX = "max"
    LAST_TOKEN = "last_token"

    def layers(self, depth: int) -> tuple[int, ...]:
        """The layers averaged, from 0 (embedding output) to ``depth`` (last)."""
        first = {Pooling.FIRST_LAST_0: 0, Pooling.FIRST_LAST_1: 1, Pooling.TOP2: depth - 1}.get(self)
        return (depth,) if first is None else (first, depth)

    def __call__(self, states: Sequence[Tensor], mask: Tensor) -> Tensor:
        """One vector a sentence.

        Args:
            states: the hidden states to average, each (rows, length, hidden).
            mask: (rows, length), 1 for real tokens; padding on the right.

        Returns:
            (rows, hidden), float32 where the states are of lower precision.
        """
        wide = [s.float() if s.dtype in (torch.bfloat16, torch.float16) else s for s in states]
        hidden = wide[0] if len(wide) == 1 else torch.stack(wide).mean(dim=0)
        if self is Pooling.CLS:
            return hidden[:, 0]
        if self is Pooling.LAST_TOKEN:
            last = mask.sum(dim=1) - 1
            return hidden[torch.arange(hidden.shape[0], device=hidden.device), last]
        weights = mask.unsqueeze(-1).to(hidden.dtype)
        if self is Pooling.MAX:
            return hidden.masked_fill(weights == 0, float("-inf")).amax(dim=1)
        return (hidden * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)
