"""A view that replaces tokens by the guesses of the backbone's own masked-LM head."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, Literal, Self

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.kernels.outputs import MaskedTokens
from opencse.objective.vectors.masking import mask_id
from opencse.objective.vectors.requests import LmHead
from opencse.objective.vectors.step import Request
from opencse.objective.views.base import ChangesTokens, SentenceView, word_numbers
from opencse.settings import PartSettings
from opencse.text.tokenizer import Ids, TokenisedText, Tokens


class MlmSubstitute(ChangesTokens, SentenceView):
    """Some tokens replaced by the backbone's own masked-LM guesses (SimCSE, Table 1, "MLM k%": 62.2 at 15%).

    Every token that is not special is chosen with probability ``rate``; all of these become [MASK] together, a
    frozen copy of the backbone as it was before training, with its masked-LM head and without dropout, reads the
    sentence, and each is replaced by a draw from the softmax there (``pick = "sample"``) or by its most probable
    token (``"best"``). Special tokens are never put in; the old token may come back. The paper says "use BERT-base
    to replace k% of words" and no more; no code was published.

    It takes one more forward pass of N rows per step, without gradient. The copy is part of the state, never trained.

    Example:
        >>> view = MlmSubstitute(MlmSubstitute.Settings(rate=0.3, pick="best"))
        >>> [type(request).__name__ for request in view.reads]  # the encoder must have a masked-LM head
        ['LmHead']
    """

    class Settings(PartSettings):
        """Settings of `MlmSubstitute`.

        Attributes:
            rate: probability that a token is replaced.
            pick: which guess replaces it.
        """

        kind: Literal["mlm_substitute"] = "mlm_substitute"
        rate: float = Field(default=0.15, gt=0, le=1)
        pick: Literal["sample", "best"] = "sample"

    settings: Settings

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.frozen: SentenceEncoder | None = None

    @property
    def reads(self) -> Set[Request[Any]]:
        """The head that guesses."""
        return {LmHead(instead="choose another view than mlm_substitute")}

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Copies the backbone and its masked-LM head.

        Raises:
            UserError: if the tokenizer has no mask token.
        """
        del batch_size, seed
        mask_id(encoder.tokenizer, f"{self.kind} view")
        assert encoder.lm_head is not None
        self.frozen = encoder.twin().requires_grad_(False).eval()
        self.frozen.projection = None  # sentence vectors are not made
        self.frozen.dense = torch.nn.Sequential()

    def train(self, mode: bool = True) -> Self:
        """Sets training mode, but not of the copy, which guesses without dropout."""
        super().train(mode)
        if self.frozen is not None:
            self.frozen.eval()
        return self

    def positives(self, texts: Sequence[TokenisedText], random: np.random.Generator) -> Sequence[Ids]:
        """Replaces some ids of each text; the lengths stay."""
        if self.frozen is None:
            raise RuntimeError("the mlm_substitute view was not begun")
        rows = [text.ids.copy() for text in texts]
        picked = [
            np.flatnonzero((word_numbers(t) >= 0) & (random.random(len(t.ids)) < self.settings.rate)) for t in texts
        ]
        seed = int(random.integers(2**63))
        tokens = self.frozen.tokenizer.pad(rows)
        positions = torch.zeros_like(tokens.input_ids, dtype=torch.bool)
        for row, indices in enumerate(picked):
            positions[row, torch.from_numpy(indices)] = True
        if not positions.any():
            return rows
        guesses = self._guesses(self.frozen, tokens, positions, seed).numpy()
        ends = np.cumsum([len(indices) for indices in picked])
        for ids, indices, end in zip(rows, picked, ends, strict=True):
            ids[indices] = guesses[end - len(indices) : end]
        return rows

    @torch.no_grad()
    def _guesses(self, frozen: SentenceEncoder, tokens: Tokens, positions: Tensor, seed: int) -> Tensor:
        """(M,) ids, on the CPU, for the M ``positions`` in row-major order."""
        tokenizer = frozen.tokenizer
        ids = tokens.input_ids.masked_fill(positions, mask_id(tokenizer, f"{self.kind} view"))
        masked = MaskedTokens(Tokens(ids, tokens.attention_mask).to(frozen.device), positions)
        logits = frozen(None, masked=masked).masked_logits.float()
        logits[:, tokenizer.vocabulary_size :] = -torch.inf  # rows that only round the embedding table up
        logits[:, tokenizer.hf.all_special_ids] = -torch.inf
        if self.settings.pick == "best":
            best: Tensor = logits.argmax(dim=1).cpu()
            return best
        generator = torch.Generator(frozen.device).manual_seed(seed)
        return torch.multinomial(logits.softmax(dim=1), 1, generator=generator).squeeze(1).cpu()
