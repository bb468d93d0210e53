"""The inputs and outputs of an encoder's training forward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from opencse.text.tokenizer import Tokens

Disturb = Callable[[Tensor], Tensor]
"""A change of the input embeddings: (rows, length, hidden) -> the same shape."""


@dataclass(frozen=True)
class MaskedTokens:
    """A masked copy of some texts.

    Attributes:
        tokens: of the texts.
        positions: (rows, length) bool, the positions to predict. Keep them on the CPU: on a GPU, counting them waits
            for all work in flight.
        labels: (M,) ids of the hidden tokens; with them the forward returns losses instead of logits.
    """

    tokens: Tokens
    positions: Tensor
    labels: Tensor | None = None


@dataclass(frozen=True)
class Encoded:
    """The output of one training forward.

    Attributes:
        sentence: (rows, d) vectors after the training head; None if there were no sentences.
        layers: the same for each requested intermediate layer, pooled and projected in the same way.
        masked_logits: (M, vocabulary) at the masked positions, or None.
        masked_losses: (M,) cross-entropy there, where the hidden tokens were given; else None.
        pooled: (rows, hidden) pooled vectors before the dense layers and the training head.
    """

    sentence: Tensor | None
    layers: dict[int, Tensor] = field(default_factory=dict)
    masked_logits: Tensor | None = None
    masked_losses: Tensor | None = None
    pooled: Tensor | None = None

    @property
    def vectors(self) -> Tensor:
        """(rows, d) ``sentence``, where it must be there."""
        if self.sentence is None:
            raise RuntimeError("the encoder returned no sentence vectors")
        return self.sentence
