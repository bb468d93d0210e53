"""Changes of the input embeddings, row by row: the same for a row whether all go through the encoder at once or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from opencse.objective.vectors.chunks import RowDisturb

_SKIPPED = 256


class RowNoise:
    """One stream of draws along rows, wherever among them it is entered, and as often as it is.

    A generator moves on by as many draws as rows were given; where each call's rows begin, its state is kept. On a CPU
    the draws of some rows, then of the next, are those of all at once (where 16 divides the hidden size).

    Args:
        noise: whose draws these are.
        draw: (rows, length, hidden), generator -> the same shape.
    """

    def __init__(self, noise: torch.Generator, draw: Callable[[Tensor, torch.Generator], Tensor]) -> None:
        self.noise = noise
        self.draw = draw
        self.states = {0: noise.get_state()}

    def __call__(self, words: Tensor, start: int) -> Tensor:
        """``words`` changed, those of the rows from ``start`` on."""
        at = max(place for place in self.states if place <= start)
        self.noise.set_state(self.states[at])
        while at < start:  # rows that other processes work on
            rows = min(_SKIPPED, start - at)
            self.draw(words.new_empty(rows, *words.shape[1:]), self.noise)
            at += rows
        self.states[start] = self.noise.get_state()
        changed = self.draw(words, self.noise)
        self.states[start + len(words)] = self.noise.get_state()
        return changed


class Watch:
    """Input embeddings as they go by, and their gradients, which a backward pass leaves here.

    Args:
        first: changes them before they are looked at, if given.
        leaf: whether they are cut off there, so that the gradient goes no further.
    """

    def __init__(self, first: RowDisturb | None = None, *, leaf: bool = False) -> None:
        self.first = first
        self.leaf = leaf
        self.gradients: dict[int, Tensor] = {}

    def __call__(self, words: Tensor, start: int) -> Tensor:
        """``words``, whose gradient is kept."""
        if self.first is not None:
            words = self.first(words, start)
        if not torch.is_grad_enabled():  # a chunk that is made again later
            return words
        if self.leaf or not words.requires_grad:  # LoRA leaves the embeddings as they are
            words = words.detach().requires_grad_()

        def keep(gradient: Tensor) -> None:
            self.gradients[start] = gradient

        words.register_hook(keep)  # type: ignore[no-untyped-call]
        return words

    def of(self, start: int, rows: int) -> Tensor:
        """(rows, length, hidden): the gradients of the rows from ``start`` on, which went through together."""
        for place, gradient in self.gradients.items():
            if place <= start and start + rows <= place + len(gradient):
                return gradient[start - place : start - place + rows]
        raise RuntimeError("the pass left no gradient at the input embeddings")


@contextmanager
def frozen(*modules: nn.Module | None) -> Iterator[None]:
    """No weight of ``modules`` takes a gradient within the block."""
    held = {p for module in modules if module is not None for p in module.parameters() if p.requires_grad}
    for parameter in held:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in held:
            parameter.requires_grad_()
