"""Makes the vectors of a step: in one forward pass, and a further one only for what cannot share it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.kernels.outputs import Encoded
from opencse.objective.vectors.chunks import RowDisturb
from opencse.objective.vectors.generator import random_state, restore
from opencse.objective.vectors.step import Forward, Representations, Request, StepInputs
from opencse.text.tokenizer import Tokens

Derive = Callable[[Tensor, torch.Generator], Tensor]
"""Anchors' vectors (N, d) and a generator -> the positives' vectors (N, d)."""


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
    forward = Forward(encoder, inputs, views=n if derive is not None else 2 * n)
    answers = {request: request.ask(forward) for request in sorted(reads, key=str)}
    if not any(request.encodes for request in reads):
        encoded = inputs.chunks.encode(encoder, None, masked=forward.masked)
        anchor = positive = torch.zeros(n, 0, device=inputs.keys.device)
        hard = anchor.unsqueeze(1)[:, :0]
    else:
        encoded = _encode(encoder, second, forward, shared_mask, disturb)
        vectors = encoded.vectors  # (rows, d): N anchors, N positives unless derived, H * N hard, more
        anchor = vectors[:n]
        positive = vectors[n : 2 * n] if derive is None else derive(anchor, inputs.noise("view"))
        rest = vectors[forward.views : len(inputs.tokens)]  # (H * N, d): all first hard negatives, then all second ones
        hard = rest.reshape(-1, n, vectors.shape[1]).transpose(0, 1)  # (N, H, d)
    return Representations(
        anchor=anchor,
        positive=positive,
        hard=hard,
        keys=inputs.keys,
        answers={request: answer(encoded) for request, answer in answers.items()},
        noise_seed=inputs.noise_seed,
    )


def _encode(
    encoder: SentenceEncoder,
    second: SentenceEncoder | None,
    forward: Forward,
    shared_mask: bool,
    disturb: RowDisturb | None,
) -> Encoded:
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
    return Encoded(
        torch.cat([first.vectors, other.vectors]),
        {layer: torch.cat([first.layers[layer], other.layers[layer]]) for layer in layers},
        masked_losses=first.masked_losses,
    )


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
