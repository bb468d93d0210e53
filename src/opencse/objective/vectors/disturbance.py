"""Changes input embeddings row by row, in the same way whether rows are encoded at once or in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from opencse.objective.vectors.chunks import RowDisturb

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
