"""The vectors a step works on: what the parts need, made once, handed to all."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from opencse.encoder.encoder import MaskedTokens, SentenceEncoder
from opencse.text.tokenizer import Tokens


@dataclass(frozen=True)
class Needs:
    """What a part reads, so that no forward is made that nobody reads, and none twice.

    Attributes:
        sentences: the sentence vectors of the views.
        hard: the data's hard negatives.
        layers: sentence vectors of intermediate layers (0 = embedding output).
        masked_rate: share of tokens masked in a copy of the anchors and positives; None makes no copy.
    """

    sentences: bool = False
    hard: bool = False
    layers: frozenset[int] = frozenset()
    masked_rate: float | None = None

    @property
    def reads_sentences(self) -> bool:
        """Whether the sentences go through the encoder at all."""
        return self.sentences or self.hard or bool(self.layers)

    def __or__(self, other: Needs) -> Needs:
        rates = {r for r in (self.masked_rate, other.masked_rate) if r is not None}
        if len(rates) > 1:
            raise ValueError(f"two parts ask for different masking rates: {sorted(rates)}")
        return Needs(
            sentences=self.sentences or other.sentences,
            hard=self.hard or other.hard,
            layers=self.layers | other.layers,
            masked_rate=next(iter(rates)) if rates else None,
        )


@dataclass(frozen=True)
class StepInputs:
    """One step's texts, ready for the encoder.

    Attributes:
        tokens: rows in the order N anchors, N positives, then N first hard negatives, N second ones, ...; the
            anchors alone where no part reads sentences.
        examples: N.
        keys: (N, 2 + H) hash of the text behind each row ((N, 1) for anchors alone); equal texts have equal keys.
        masked: a masked copy for the MLM term, or None.
        masked_labels: (M,) the ids that were masked, or None.
    """

    tokens: Tokens
    examples: int
    keys: Tensor
    masked: MaskedTokens | None = None
    masked_labels: Tensor | None = None

    def to(self, device: torch.device) -> StepInputs:
        """The same inputs on ``device``."""
        masked = self.masked
        if masked is not None:
            masked = MaskedTokens(masked.tokens.to(device), masked.positions.to(device))
        labels = None if self.masked_labels is None else self.masked_labels.to(device)
        return StepInputs(self.tokens.to(device), self.examples, self.keys.to(device), masked, labels)


@dataclass(frozen=True)
class Representations:
    """What the parts of an objective see.

    Attributes:
        anchor: (N, d).
        positive: (N, d).
        hard: (N, H, d), H >= 0 hard negatives an example.
        keys: (N, 2 + H) text hashes of anchor, positive, hard negatives.
        layers: for each intermediate layer (2N, d): anchors, then positives.
        masked_logits: (M, vocabulary), or None.
        masked_labels: (M,), or None.
    """

    anchor: Tensor
    positive: Tensor
    hard: Tensor
    keys: Tensor
    layers: dict[int, Tensor] = field(default_factory=dict)
    masked_logits: Tensor | None = None
    masked_labels: Tensor | None = None

    def detached(self) -> Representations:
        """The same vectors without gradient; the masked copy's logits stay out."""
        return Representations(
            anchor=self.anchor.detach(),
            positive=self.positive.detach(),
            hard=self.hard.detach(),
            keys=self.keys,
            layers={layer: vectors.detach() for layer, vectors in self.layers.items()},
        )

    def same_text(self, column_keys: Tensor) -> Tensor:
        """(N, K) bool: whether column k's text is the anchor's or the positive's own text.

        Args:
            column_keys: (K,) text hashes of the columns.
        """
        return (column_keys == self.keys[:, :1]) | (column_keys == self.keys[:, 1:2])


def represent(encoder: SentenceEncoder, inputs: StepInputs, needs: Needs) -> Representations:
    """One forward over all the rows of a step.

    ``encoder`` is called as a module, so that a wrapper around it (for distributed training) sees the call.
    Where ``needs`` asks for no sentence vectors, none are made, and anchor, positive and hard have width 0.
    """
    tokens = inputs.tokens if needs.reads_sentences else None
    encoded = encoder(tokens, layers=sorted(needs.layers), masked=inputs.masked)
    n = inputs.examples
    vectors = encoded.sentence
    if vectors is None:
        vectors = torch.zeros(2 * n, 0, device=inputs.keys.device)
    hard = vectors[2 * n :].reshape(len(vectors) // n - 2, n, vectors.shape[1]).transpose(0, 1)
    return Representations(
        anchor=vectors[:n],
        positive=vectors[n : 2 * n],
        hard=hard,
        keys=inputs.keys,
        layers={layer: by_layer[: 2 * n] for layer, by_layer in encoded.layers.items()},
        masked_logits=encoded.masked_logits,
        masked_labels=inputs.masked_labels,
    )
