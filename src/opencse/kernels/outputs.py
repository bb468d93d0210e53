"""What a training forward of an encoder is given and gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from opencse.text.tokenizer import Tokens

Disturb = Callable[[Tensor], Tensor]
"""Input embeddings (rows, length, hidden) -> the same shape."""


@dataclass(frozen=True)
class MaskedTokens:
    """A masked copy of some texts: the tokens, and a (rows, length) bool of the positions to predict.

    The positions are best left on the CPU: on a GPU it takes all work in flight to be done to count them.
    """

    tokens: Tokens
    positions: Tensor


@dataclass(frozen=True)
class Encoded:
    """What one training forward gives.

    Attributes:
        sentence: (rows, d) vectors after the training head; None if no sentences were asked for.
        layers: the same for each intermediate layer asked for, pooled and projected alike.
        masked_logits: (M, vocabulary) at the masked positions, or None.
        masked_losses: (M,) cross-entropy there, where a step took it chunk by chunk and kept no logits; else None.
    """

    sentence: Tensor | None
    layers: dict[int, Tensor] = field(default_factory=dict)
    masked_logits: Tensor | None = None
    masked_losses: Tensor | None = None

    @property
    def vectors(self) -> Tensor:
        """(rows, d) ``sentence``, where it must be there."""
        if self.sentence is None:
            raise RuntimeError("the encoder was asked for sentences and gave none")
        return self.sentence
