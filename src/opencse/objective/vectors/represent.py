"""Makes the vectors of a step: in one forward pass, and a further one only for what cannot share it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.kernels.states import Encoded
from opencse.objective.vectors.chunks import RowDisturb, random_state, restore
from opencse.objective.vectors.step import Forward, Representations, Request, StepInputs
from opencse.text.tokenizer import Tokens

Derive = Callable[[Tensor], Tensor]
"""The anchors' vectors (N, d) -> the positives' vectors (N, d)."""
SideRates = tuple[float, float]
"""The dropout rates of anchors and of all other texts."""
Merge = Callable[[Tensor], Tensor]
"""The vectors of all positives (P, N, d) -> one of each anchor's positives (N, d)."""


@dataclass(frozen=True)
class Passes:
    """Forward passes over the texts of one step: a view makes one, or more if it follows a gradient.

    Attributes:
        encoder: the encoder in training.
        inputs: the step's texts, on the encoder's device.
        reads: the requests of all parts together.
        contrast: gives the contrastive loss of a step's vectors.
        objective: holds the weights of all parts, none of which takes a gradient in a further pass.
        second: encodes positives and hard negatives, if there is a second encoder.
        disturb: changes the input embeddings of some rows, given with the number of the first row.
    """

    encoder: SentenceEncoder
    inputs: StepInputs
    reads: Collection[Request[Any]]
    contrast: Callable[[Representations], Tensor]
    objective: nn.Module
    second: SentenceEncoder | None = None
    disturb: RowDisturb | None = None

    def forward(
        self,
        *,
        change_anchors: RowDisturb | None = None,
        change_positives: RowDisturb | None = None,
        **how: Any,  # noqa: ANN401 - the keywords of `represent`
    ) -> Representations:
        """Makes the vectors of the step, with gradient; ``how`` are the keywords of `represent`.

        Args:
            change_anchors: changes the input embeddings of some anchors, given with the number of the first.
            change_positives: changes the input embeddings of some positives, given with the number of the first.
            how: ``derive``, ``merge``, ``shared_mask`` and ``dropout``.
        """
        disturb, n = self.disturb, self.inputs.examples
        if change_anchors is not None:
            disturb = _then(disturb, 0, n, change_anchors)
        if change_positives is not None:
            disturb = _then(disturb, n, 2 * n, change_positives)
        return represent(self.encoder, self.inputs, self.reads, second=self.second, disturb=disturb, **how)

    def input_gradients(self) -> GradientWatch:
        """Finds the contrastive loss's gradient at the input embeddings, in a pass of its own.

        The random generator is put back afterwards, so the next pass has the same dropout masks. No weight gets a
        gradient.
        """
        watch = GradientWatch(self.disturb, leaf=True)
        before = random_state(self.inputs.keys.device)
        with torch.enable_grad(), frozen(self.encoder, self.objective):
            reps = represent(self.encoder, self.inputs, self.reads, second=self.second, disturb=watch)
            torch.autograd.backward(self.contrast(reps))
        # So the step itself draws the masks under which this gradient was taken.
        restore(before, self.inputs.keys.device)
        return watch

    def positive_gradient(self, reps: Representations) -> Tensor:
        """(N, d): the contrastive loss's gradient at the positives' vectors, everything else fixed."""
        positive = reps.positive.detach().requires_grad_()
        with torch.enable_grad():
            loss = self.contrast(replace(reps.detached(), positive=positive))
            (gradient,) = torch.autograd.grad(loss, positive)
        return gradient


def _then(disturb: RowDisturb | None, begin: int, end: int, change: RowDisturb) -> RowDisturb:
    """Applies ``disturb`` to all rows, then ``change`` to those from ``begin`` to ``end``, counted from ``begin``."""

    def both(words: Tensor, start: int) -> Tensor:
        words = words if disturb is None else disturb(words, start)
        first, stop = max(begin - start, 0), min(end - start, len(words))
        if first >= stop:
            return words
        return torch.cat([words[:first], change(words[first:stop], start + first - begin), words[stop:]])

    return both


def _same(anchors: Tensor) -> Tensor:
    return anchors


def represent(
    encoder: SentenceEncoder,
    inputs: StepInputs,
    reads: Collection[Request[Any]],
    *,
    derive: Derive | None = None,
    merge: Merge | None = None,
    second: SentenceEncoder | None = None,
    shared_mask: bool = False,
    dropout: SideRates | None = None,
    disturb: RowDisturb | None = None,
) -> Representations:
    """Encodes all rows of a step in one forward pass, and in a further pass what cannot share it.

    A further pass is needed for the anchors without dropout (a switch of the whole pass), for positives under
    the dropout masks of the anchors, and for whatever a second encoder reads.

    Rows are encoded all at once, or in chunks, of which each process encodes its share (``inputs.chunks``).
    Where no request in ``reads`` encodes the sentences, no vectors are made: anchor, positive and hard have width 0.

    Args:
        encoder: the encoder in training.
        inputs: the step's texts, on the encoder's device.
        reads: the requests of all parts together.
        derive: makes the positives' vectors of the anchors'; None if they have rows of their own.
        merge: makes one vector of an anchor's positives, where ``inputs`` has several.
        second: encodes positives and hard negatives, if given.
        shared_mask: whether the positives go through under the dropout masks of the anchors.
        dropout: the dropout rates of anchors and of all other texts, in a pass each; None: the encoder's, together.
        disturb: changes the input embeddings of some rows, given with the number of the first row; masked copies and
            the anchors without dropout stay as they are.
    """
    n = inputs.examples
    if derive is None and len(inputs.tokens) == n:  # no part reads the positives
        derive = _same
    forward = Forward(encoder, inputs, views=n if derive is not None else (1 + inputs.positives) * n)
    forward.plain = disturb is None and dropout is None
    # In a fixed order: it decides which rows, and so which dropout masks, each request gets.
    answers = {request: request.ask(forward) for request in sorted(reads, key=str)}
    if not any(request.encodes for request in reads):
        encoded = inputs.chunks.encode(encoder, None, masked=forward.masked)
        anchor = positive = torch.zeros(n, 0, device=inputs.keys.device)
        hard = anchor.unsqueeze(1)[:, :0]
    else:
        encoded = _encode(encoder, second, forward, shared_mask, dropout, disturb)
        vectors = encoded.vectors  # (rows, d): N anchors, P * N positives unless derived, H * N hard, more
        anchor = vectors[:n]
        positive = vectors[n : forward.views] if derive is None else derive(anchor)
        if merge is not None:
            positive = merge(positive.reshape(inputs.positives, n, vectors.shape[1]))
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
    dropout: SideRates | None,
    disturb: RowDisturb | None,
) -> Encoded:
    """All rows: first of the texts, then what requests added."""
    inputs, layers = forward.inputs, sorted(forward.layers)
    n, device, chunks = inputs.examples, inputs.keys.device, inputs.chunks
    if second is None and not shared_mask and dropout is None:
        rows = _joined([inputs.tokens, *forward.more], encoder.tokenizer.pad_id)
        return chunks.encode(
            encoder, rows, layers=layers, masked=forward.masked, disturb=disturb, pooled=forward.pooled
        )
    assert not forward.more, "further rows go with one encoder and independent masks"
    assert disturb is None, "disturbed inputs go with one encoder and independent masks"
    # With a shared mask the others start from the same state, and what follows goes on as without.
    before = random_state(device)
    anchors, others = inputs.tokens.rows(0, n), inputs.tokens.rows(n, len(inputs.tokens))
    of_anchors, of_others = (None, None) if dropout is None else dropout
    encode = partial(chunks.encode, layers=layers, padded=shared_mask, pooled=forward.pooled)
    first = encode(encoder, anchors, masked=forward.masked, dropout=of_anchors)
    after = random_state(device)
    if shared_mask:
        restore(before, device)
    other = encode(second or encoder, others, dropout=of_others)
    if shared_mask:
        restore(after, device)
    return Encoded(
        torch.cat([first.vectors, other.vectors]),
        {layer: torch.cat([first.layers[layer], other.layers[layer]]) for layer in layers},
        masked_losses=first.masked_losses,
        pooled=None if first.pooled is None or other.pooled is None else torch.cat([first.pooled, other.pooled]),
    )


def _joined(parts: list[Tokens], pad_id: int) -> Tokens:
    """The rows of all parts, padded to the longest."""
    if len(parts) == 1:
        return parts[0]
    longest = max(part.input_ids.shape[1] for part in parts)
    unpooled = [torch.zeros(len(p), dtype=torch.int64) if p.unpooled is None else p.unpooled for p in parts]
    return Tokens(
        torch.cat([nn.functional.pad(p.input_ids, (0, longest - p.input_ids.shape[1]), value=pad_id) for p in parts]),
        torch.cat([nn.functional.pad(p.attention_mask, (0, longest - p.attention_mask.shape[1])) for p in parts]),
        None
        if all(p.unpooled is None for p in parts)
        else torch.cat([u.to(parts[0].input_ids.device) for u in unpooled]),
    )


_SKIPPED = 256


class RowNoise:
    """Draws noise per row: a row has the same draws in whatever order and how often its chunk is computed.

    The generator's state is stored for the first row of each call. On a CPU the draws of consecutive chunks equal those
    of all rows at once (if 16 divides the hidden size).

    Args:
        noise: the generator of the draws.
        draw: changes embeddings (rows, length, hidden) with draws of a generator -> the same shape.
    """

    def __init__(self, noise: torch.Generator, draw: Callable[[Tensor, torch.Generator], Tensor]) -> None:
        self.noise = noise
        self.draw = draw
        self.states = {0: noise.get_state()}

    def __call__(self, words: Tensor, start: int) -> Tensor:
        """Changes ``words``, the embeddings of the rows from ``start`` on."""
        row = max(known for known in self.states if known <= start)
        self.noise.set_state(self.states[row])
        while row < start:  # rows of other processes
            # In pieces, so that skipping the rows of other processes takes little memory.
            count = min(_SKIPPED, start - row)
            self.draw(words.new_empty(count, *words.shape[1:]), self.noise)
            row += count
        self.states[start] = self.noise.get_state()
        changed = self.draw(words, self.noise)
        self.states[start + len(words)] = self.noise.get_state()
        return changed


class GradientWatch:
    """Passes input embeddings on unchanged, and stores their gradients after a backward pass.

    Args:
        first: changes the embeddings before, if given.
        leaf: whether the embeddings are detached, so that the gradient goes no further.
    """

    def __init__(self, first: RowDisturb | None = None, *, leaf: bool = False) -> None:
        self.first = first
        self.leaf = leaf
        self.gradients: dict[int, Tensor] = {}

    def __call__(self, words: Tensor, start: int) -> Tensor:
        """Returns ``words``; their gradient will be stored."""
        if self.first is not None:
            words = self.first(words, start)
        if not torch.is_grad_enabled():  # a chunk that is encoded again later
            return words
        if self.leaf or not words.requires_grad:  # LoRA does not train the embeddings
            words = words.detach().requires_grad_()

        def store(gradient: Tensor) -> None:
            self.gradients[start] = gradient

        words.register_hook(store)  # type: ignore[no-untyped-call]
        return words

    def of(self, start: int, rows: int) -> Tensor:
        """(rows, length, hidden): the gradients of the rows from ``start`` on, which were encoded together."""
        for first, gradient in self.gradients.items():
            if first <= start and start + rows <= first + len(gradient):
                return gradient[start - first : start - first + rows]
        raise RuntimeError("the pass left no gradient at the input embeddings")


@contextmanager
def frozen(*modules: nn.Module | None) -> Iterator[None]:
    """Keeps the weights of ``modules`` from taking a gradient within the block."""
    trained = {p for module in modules if module is not None for p in module.parameters() if p.requires_grad}
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_()
