"""A step's texts, and the vectors made of them: in one forward, and a further one only for what cannot share it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.objective.vectors.chunks import WHOLE, Chunks, Passed, RowDisturb
from opencse.objective.vectors.generator import random_state, restore
from opencse.objective.vectors.request import Forward, Made, Request
from opencse.streams import seed_of
from opencse.text.moving import moved
from opencse.text.tokenizer import Tokens

Derive = Callable[[Tensor, torch.Generator], Tensor]
T = TypeVar("T")


@dataclass(frozen=True)
class StepInputs:
    """One step's texts, ready for the encoder.

    Attributes:
        tokens: rows in the order N anchors, N positives, then N first hard negatives, N second ones, ...; the
            anchors alone where no part reads sentences; no positives where the view derives them from the anchors.
        examples: N.
        keys: (N, 2 + H) hash of the text behind each row ((N, 1) for anchors alone); equal texts have equal keys.
        prepared: what requests made of the texts beforehand.
        noise_seed: of whatever noise the step's parts draw.
        anchor_length: ids of the longest anchor; None if nobody counted.
        chunks: how many rows go through an encoder together, and in which process.
    """

    tokens: Tokens
    examples: int
    keys: Tensor
    prepared: Mapping[Request[Any], Any] = field(default_factory=dict)
    noise_seed: int = 0
    anchor_length: int | None = None
    chunks: Chunks = WHOLE

    @property
    def anchors(self) -> Tokens:
        """The anchors' rows, padded no further than the longest of them where that is known."""
        rows = self.tokens.rows(0, self.examples)
        return rows if self.anchor_length is None else rows.columns(self.anchor_length)

    def noise(self, name: str) -> torch.Generator:
        """A new generator for the draws of this step called ``name``, on the texts' device; no other draw moves it."""
        return _generator(self.noise_seed, name, self.keys.device)

    def to(self, device: torch.device) -> StepInputs:
        """The same inputs on ``device``."""
        prepared = {request: made.to(device) for request, made in self.prepared.items()}
        return replace(self, tokens=self.tokens.to(device), keys=moved(self.keys, device), prepared=prepared)


@dataclass(frozen=True)
class Representations:
    """What the parts of an objective see.

    Attributes:
        anchor: (N, d).
        positive: (N, d).
        hard: (N, H, d), H >= 0 hard negatives an example.
        keys: (N, 2 + H) text hashes of anchor, positive, hard negatives.
        answers: what was made for each request.
        noise_seed: of the noise that parts draw; None only in representations made by hand.
        computed: what the parts' own networks made of the step, by the part's name; see `Part.compute`.
    """

    anchor: Tensor
    positive: Tensor
    hard: Tensor
    keys: Tensor
    answers: Mapping[Request[Any], Any] = field(default_factory=dict)
    noise_seed: int | None = None
    computed: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, request: Request[T]) -> T:
        """What was made for ``request``; only parts that have it in their ``reads`` can count on it."""
        if request not in self.answers:
            raise RuntimeError(f"this step was not asked for {request}")
        answer: T = self.answers[request]
        return answer

    def noise(self, name: str) -> torch.Generator:
        """A new generator for the draws of this step called ``name``: the same draws at every call."""
        if self.noise_seed is None:
            raise RuntimeError("this step was given no seed for sampled noise")
        return _generator(self.noise_seed, name, self.keys.device)

    def detached(self) -> Representations:
        """The same vectors without gradient; answers that no part may keep stay out."""
        answers = {request: request.detached(answer) for request, answer in self.answers.items()}
        return Representations(
            anchor=self.anchor.detach(),
            positive=self.positive.detach(),
            hard=self.hard.detach(),
            keys=self.keys,
            answers={request: answer for request, answer in answers.items() if answer is not None},
            noise_seed=self.noise_seed,
            computed={name: one.detach() for name, one in self.computed.items() if isinstance(one, Tensor)},
        )


def represent(
    encoder: SentenceEncoder,
    inputs: StepInputs,
    reads: Collection[Request[Any]],
    *,
    derive: Derive | None = None,
    second: SentenceEncoder | None = None,
    shared_mask: bool = False,
    disturb: RowDisturb | None = None,
) -> Representations:
    """One forward over all the rows of a step; a further one for each thing that cannot share it.

    Those are the anchors without dropout (dropout is a switch of the whole forward), the positives under the
    anchors' own dropout masks, and whatever a second encoder reads.

    Rows go as ``inputs.chunks`` says: all at once, or in chunks, of which each process encodes its share.
    Where nothing in ``reads`` encodes the sentences, none are made, and anchor, positive and hard have width 0.

    Args:
        encoder: what is trained.
        inputs: the step's texts, on the encoder's device.
        reads: what all parts together ask for.
        derive: makes the positives' vectors of the anchors'; None if they have rows of their own.
        second: encodes positives and hard negatives, if given.
        shared_mask: the positives go through under the very dropout masks of the anchors.
        disturb: changes the input embeddings of some rows, whose first one it is told, if given; masked copies and the
            anchors without dropout stay as they are.
    """
    n = inputs.examples
    forward = Forward(inputs, views=n if derive is not None else 2 * n)
    makers = {request: request.ask(forward) for request in sorted(reads, key=str)}
    if not any(request.encodes for request in reads):
        encoded = inputs.chunks.encode(encoder, None, masked=forward.masked)
        vectors = torch.zeros(0, 0, device=inputs.keys.device)
        anchor = positive = torch.zeros(n, 0, device=inputs.keys.device)
        hard = anchor.unsqueeze(1)[:, :0]
    else:
        encoded = _encode(encoder, second, forward, shared_mask, disturb)
        vectors = _sentences(encoded)  # (rows, d): N anchors, N positives unless derived, H * N hard, more
        anchor = vectors[:n]
        positive = vectors[n : 2 * n] if derive is None else derive(anchor, inputs.noise("view"))
        rest = vectors[forward.views : len(inputs.tokens)]  # (H * N, d): all first hard negatives, then all second ones
        hard = rest.reshape(-1, n, vectors.shape[1]).transpose(0, 1)  # (N, H, d)
    made = Made(encoder, inputs, vectors, encoded, forward.views)
    return Representations(
        anchor=anchor,
        positive=positive,
        hard=hard,
        keys=inputs.keys,
        answers={request: make(made) for request, make in makers.items()},
        noise_seed=inputs.noise_seed,
    )


def _encode(
    encoder: SentenceEncoder,
    second: SentenceEncoder | None,
    forward: Forward,
    shared_mask: bool,
    disturb: RowDisturb | None,
) -> Passed:
    """All rows: those of the texts, then those that requests added."""
    inputs, layers = forward.inputs, sorted(forward.layers)
    n, device, chunks = inputs.examples, inputs.keys.device, inputs.chunks
    if second is None and not shared_mask:
        rows = _joined([inputs.tokens, *forward.more])
        return chunks.encode(encoder, rows, layers=layers, masked=forward.masked, disturb=disturb)
    if forward.more or disturb is not None:
        raise ValueError("further rows and disturbed inputs go with one encoder and independent masks")
    before = random_state(device)
    anchors, others = inputs.tokens.rows(0, n), inputs.tokens.rows(n, len(inputs.tokens))
    first = chunks.encode(encoder, anchors, layers=layers, masked=forward.masked, padded=shared_mask)
    after = random_state(device)
    if shared_mask:
        restore(before, device)
    other = chunks.encode(second or encoder, others, layers=layers, padded=shared_mask)
    if shared_mask:
        restore(after, device)
    return Passed(
        torch.cat([_sentences(first), _sentences(other)]),
        {layer: torch.cat([first.layers[layer], other.layers[layer]]) for layer in layers},
        first.masked_losses,
    )


def _sentences(encoded: Passed) -> Tensor:
    if encoded.sentence is None:
        raise RuntimeError("the encoder was asked for sentences and gave none")
    return encoded.sentence


def _joined(parts: list[Tokens]) -> Tokens:
    if len(parts) == 1:
        return parts[0]
    unpooled = [torch.zeros(len(p), dtype=torch.int64) if p.unpooled is None else p.unpooled for p in parts]
    return Tokens(
        torch.cat([p.input_ids for p in parts]),
        torch.cat([p.attention_mask for p in parts]),
        None
        if all(p.unpooled is None for p in parts)
        else torch.cat([u.to(parts[0].input_ids.device) for u in unpooled]),
    )


def _generator(seed: int, name: str, device: torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(seed_of(seed, name))
