"""The vectors a step works on: what the parts need, made once, handed to all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

import torch
from torch import Tensor

from opencse.encoder.encoder import Disturb, Encoded, MaskedTokens, SentenceEncoder
from opencse.errors import UserError
from opencse.text.tokenizer import Tokens

Derive = Callable[[Tensor, torch.Generator], Tensor]
T = TypeVar("T", int, float)


@dataclass(frozen=True)
class Needs:
    """What a part reads, so that no forward is made that nobody reads, and none twice.

    Attributes:
        sentences: the sentence vectors of the views.
        hard: the data's hard negatives.
        clean: the anchors' vectors without any dropout.
        samples: further dropout draws of each view, averaged (K); None makes none.
        layers: sentence vectors of intermediate layers: 0 = embedding output, -1 = last, -2 the one before it.
        masked_rate: share of tokens masked in a copy of the anchors and positives; None makes no copy.
        shared_mask: both views under the very same dropout masks.
        lm_head: the backbone's masked-LM head.
        untied_decoder: that head with a decoder of its own, a copy of the word embeddings.
    """

    sentences: bool = False
    hard: bool = False
    clean: bool = False
    samples: int | None = None
    layers: frozenset[int] = frozenset()
    masked_rate: float | None = None
    shared_mask: bool = False
    lm_head: bool = False
    untied_decoder: bool = False

    @property
    def reads_sentences(self) -> bool:
        """Whether the sentences go through the encoder at all."""
        return self.sentences or self.hard or self.clean or self.samples is not None or bool(self.layers)

    @property
    def reads_lm_head(self) -> bool:
        """Whether the masked-LM head is used by anything."""
        return self.lm_head or self.masked_rate is not None

    def __or__(self, other: Needs) -> Needs:
        """What both read.

        Raises:
            UserError: if they ask for different numbers of dropout draws or masking rates.
        """
        return Needs(
            sentences=self.sentences or other.sentences,
            hard=self.hard or other.hard,
            clean=self.clean or other.clean,
            samples=_one(self.samples, other.samples, "numbers of dropout draws"),
            layers=self.layers | other.layers,
            masked_rate=_one(self.masked_rate, other.masked_rate, "masking rates"),
            shared_mask=self.shared_mask or other.shared_mask,
            lm_head=self.lm_head or other.lm_head,
            untied_decoder=self.untied_decoder or other.untied_decoder,
        )


def _one(a: T | None, b: T | None, what: str) -> T | None:
    if a is not None and b is not None and a != b:
        less, more = sorted((a, b))
        raise UserError(f"two parts of the objective ask for different {what}, {less} and {more}; give both the same")
    return b if a is None else a


@dataclass(frozen=True)
class StepInputs:
    """One step's texts, ready for the encoder.

    Attributes:
        tokens: rows in the order N anchors, N positives, then N first hard negatives, N second ones, ...; the
            anchors alone where no part reads sentences; no positives where the view derives them from the anchors.
        examples: N.
        keys: (N, 2 + H) hash of the text behind each row ((N, 1) for anchors alone); equal texts have equal keys.
        masked: a masked copy for the MLM term, or None.
        masked_labels: (M,) the ids that were masked, or None.
        noise_seed: of whatever noise the step's parts draw.
        anchor_length: ids of the longest anchor; None if nobody counted.
    """

    tokens: Tokens
    examples: int
    keys: Tensor
    masked: MaskedTokens | None = None
    masked_labels: Tensor | None = None
    noise_seed: int = 0
    anchor_length: int | None = None

    @property
    def anchors(self) -> Tokens:
        """The anchors' rows, padded no further than the longest of them where that is known."""
        rows = _rows(self.tokens, 0, self.examples)
        return Tokens(rows.input_ids[:, : self.anchor_length], rows.attention_mask[:, : self.anchor_length])

    def noise(self, stream: int) -> torch.Generator:
        """A generator for noise of this step, on the texts' device; streams do not disturb each other."""
        return torch.Generator(self.keys.device).manual_seed((self.noise_seed + stream) % 2**63)

    def to(self, device: torch.device) -> StepInputs:
        """The same inputs on ``device``."""
        masked = self.masked
        if masked is not None:
            masked = MaskedTokens(masked.tokens.to(device), masked.positions.to(device))
        labels = None if self.masked_labels is None else self.masked_labels.to(device)
        return replace(
            self, tokens=self.tokens.to(device), keys=self.keys.to(device), masked=masked, masked_labels=labels
        )


@dataclass(frozen=True)
class Representations:
    """What the parts of an objective see.

    Attributes:
        anchor: (N, d).
        positive: (N, d).
        hard: (N, H, d), H >= 0 hard negatives an example.
        keys: (N, 2 + H) text hashes of anchor, positive, hard negatives.
        layers: for each intermediate layer (2N, d): anchors, then positives; (N, d) where the view derives the
            positives from the anchors.
        masked_logits: (M, vocabulary), or None.
        masked_labels: (M,), or None.
        clean: (N, d) the anchors' texts without any dropout, or None.
        means: (2, N, d) means of further dropout draws of anchor and positive, or None.
        noise: where parts draw noise from; None only in representations made by hand.
    """

    anchor: Tensor
    positive: Tensor
    hard: Tensor
    keys: Tensor
    layers: dict[int, Tensor] = field(default_factory=dict)
    masked_logits: Tensor | None = None
    masked_labels: Tensor | None = None
    clean: Tensor | None = None
    means: Tensor | None = None
    noise: torch.Generator | None = None

    def detached(self) -> Representations:
        """The same vectors without gradient; the masked copy's logits stay out."""
        return Representations(
            anchor=self.anchor.detach(),
            positive=self.positive.detach(),
            hard=self.hard.detach(),
            keys=self.keys,
            layers={layer: vectors.detach() for layer, vectors in self.layers.items()},
            clean=None if self.clean is None else self.clean.detach(),
            means=None if self.means is None else self.means.detach(),
            noise=self.noise,
        )

    def same_text(self, column_keys: Tensor) -> Tensor:
        """(N, K) bool: whether column k's text is the anchor's or the positive's own text.

        Args:
            column_keys: (K,) text hashes of the columns.
        """
        return (column_keys == self.keys[:, :1]) | (column_keys == self.keys[:, 1:2])


def represent(
    encoder: SentenceEncoder,
    inputs: StepInputs,
    needs: Needs,
    *,
    derive: Derive | None = None,
    second: SentenceEncoder | None = None,
    disturb: Disturb | None = None,
) -> Representations:
    """One forward over all the rows of a step; a further one for each thing that cannot share it.

    Those are the anchors without dropout (dropout is a switch of the whole forward), the positives under the
    anchors' own dropout masks, and whatever a second encoder reads.

    ``encoder`` is called as a module, so that a wrapper around it (for distributed training) sees the call.
    Where ``needs`` asks for no sentence vectors, none are made, and anchor, positive and hard have width 0.

    Args:
        encoder: what is trained.
        inputs: the step's texts, on the encoder's device.
        needs: what all parts together read.
        derive: makes the positives' vectors of the anchors'; None if they have rows of their own.
        second: encodes positives and hard negatives, if given.
        disturb: changes the input embeddings of all rows, if given; the masked copy and the anchors without dropout
            stay as they are.
    """
    n = inputs.examples
    noise = inputs.noise(0)
    if not needs.reads_sentences:
        encoded = encoder(None, masked=inputs.masked)
        none = torch.zeros(n, 0, device=inputs.keys.device)
        return Representations(
            anchor=none,
            positive=none,
            hard=none.unsqueeze(1)[:, :0],
            keys=inputs.keys,
            masked_logits=encoded.masked_logits,
            masked_labels=inputs.masked_labels,
            noise=noise,
        )
    views = n if derive is not None else 2 * n
    encoded = _encode(encoder, second, inputs, needs, views, disturb)
    vectors = _sentences(encoded)
    extra = views * (needs.samples or 0)
    vectors, drawn = vectors[: len(vectors) - extra], vectors[len(vectors) - extra :]
    anchor = vectors[:n]
    means = None
    if needs.samples is not None:
        means = drawn.reshape(needs.samples, -1, n, drawn.shape[1]).mean(dim=0).expand(2, n, -1)
    return Representations(
        anchor=anchor,
        positive=vectors[n : 2 * n] if derive is None else derive(anchor, noise),
        hard=vectors[views:].reshape(-1, n, vectors.shape[1]).transpose(0, 1),
        keys=inputs.keys,
        layers={layer: by_layer[:views] for layer, by_layer in encoded.layers.items()},
        masked_logits=encoded.masked_logits,
        masked_labels=inputs.masked_labels,
        clean=_clean(encoder, inputs, anchor) if needs.clean else None,
        means=means,
        noise=noise,
    )


def _encode(
    encoder: SentenceEncoder,
    second: SentenceEncoder | None,
    inputs: StepInputs,
    needs: Needs,
    views: int,
    disturb: Disturb | None,
) -> Encoded:
    """All rows, then the rows of the views again for every further dropout draw."""
    layers, n = sorted(needs.layers), inputs.examples
    draws = [_rows(inputs.tokens, 0, views)] * (needs.samples or 0)
    if second is None and not needs.shared_mask:
        rows = _joined([inputs.tokens, *draws])
        return encoder(rows, layers=layers, masked=inputs.masked, disturb=disturb)  # type: ignore[no-any-return]
    if draws or disturb is not None:
        raise ValueError("dropout draws and disturbed inputs go with one encoder and independent masks")
    rest = _rows(inputs.tokens, n, len(inputs.tokens))
    before = random_state(inputs.keys.device)
    first = encoder(_rows(inputs.tokens, 0, n), layers=layers, masked=inputs.masked)
    after = random_state(inputs.keys.device)
    if needs.shared_mask:
        restore(before, inputs.keys.device)
    other = (second or encoder)(rest, layers=layers)
    if needs.shared_mask:
        restore(after, inputs.keys.device)
    return Encoded(
        torch.cat([_sentences(first), _sentences(other)]),
        {layer: torch.cat([first.layers[layer], other.layers[layer]]) for layer in layers},
        first.masked_logits,
    )


def _clean(encoder: SentenceEncoder, inputs: StepInputs, anchor: Tensor) -> Tensor:
    if not encoder.has_dropout:
        return anchor
    with encoder.without_dropout():
        return _sentences(encoder(inputs.anchors))


def _sentences(encoded: Encoded) -> Tensor:
    if encoded.sentence is None:
        raise RuntimeError("the encoder was asked for sentences and gave none")
    return encoded.sentence


def _rows(tokens: Tokens, start: int, end: int) -> Tokens:
    return Tokens(tokens.input_ids[start:end], tokens.attention_mask[start:end])


def _joined(parts: list[Tokens]) -> Tokens:
    if len(parts) == 1:
        return parts[0]
    return Tokens(torch.cat([p.input_ids for p in parts]), torch.cat([p.attention_mask for p in parts]))


def random_state(device: torch.device) -> Tensor:
    """The state of the generator that dropout draws from on ``device``."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def restore(state: Tensor, device: torch.device) -> None:
    """The inverse of `random_state`."""
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)
