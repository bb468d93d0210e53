"""How the rows of a step go through a network of a part: as they go through the encoder."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from opencse.modules.modes import evaluating
from opencse.objective.vectors.chunks import Chunks
from opencse.objective.vectors.generator import seeded
from opencse.streams import seed_of

Rows = Callable[[int, int, Tensor], Tensor]
"""Numbers a and b, and the inputs of the rows from a to b, (b - a, ...) -> what comes of these rows, (b - a, ...)."""


def through(network: nn.Module, function: Rows, inputs: Tensor, chunks: Chunks) -> Tensor:
    """Runs a network over the rows of a step in its chunks, each process a share of them.

    The gradient reaches the weights of ``network`` and ``inputs``. As with gradient caching of the encoder, a chunk's
    graph is made again, under the same dropout masks, when its gradient comes; only those of the last chunks are kept.
    Among several processes each has the weights' gradients of its own rows, to be added up (`Part.networks`), and all
    have the whole gradient of ``inputs``.

    Args:
        network: what ``function`` calls; in training mode, each chunk has dropout masks of its own seed.
        function: called with the rows of each chunk; all it takes a gradient of is ``network`` and its third argument.
        inputs: (rows, ...), the same in every process.
        chunks: of the step.

    Returns:
        (rows, ...), all rows in every process.
    """
    if chunks.whole:
        return function(0, len(inputs), inputs)
    device = inputs.device
    draw = chunks.draw(network, device)
    dtype = torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else None
    run = _Run(network, function, chunks, draw, device, dtype, grad=torch.is_grad_enabled())
    made: Tensor = _Through.apply(run, inputs, torch.zeros((), device=device, requires_grad=True))  # type: ignore[no-untyped-call]
    return made


@dataclass(frozen=True)
class _Run:
    """The network's forward of any rows, which can be made again: same masks, same mode, same arithmetic."""

    network: nn.Module
    function: Rows
    chunks: Chunks
    draw: int | None
    device: torch.device
    dtype: torch.dtype | None
    grad: bool

    def __call__(self, start: int, stop: int, inputs: Tensor) -> Tensor:
        cast: AbstractContextManager[Any] = nullcontext()
        if self.dtype is not None:
            # Without autocast's cache: weights cast where no gradient is taken would be used where one is.
            cast = torch.autocast(self.device.type, self.dtype, cache_enabled=False)
        masks = None if self.draw is None else seeded(seed_of(self.draw, str(start)), self.device)
        with cast, masks or evaluating(self.network):
            return self.function(start, stop, inputs)

    def with_graph(self, start: int, stop: int, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """The rows' inputs as a leaf, and the outcome with its graph."""
        leaf = inputs[start:stop].detach().requires_grad_()
        with torch.enable_grad():
            return leaf, self(start, stop, leaf)


class _Through(torch.autograd.Function):
    """All rows' outcome, whose backward sends each chunk's gradient through its graph."""

    @staticmethod
    def forward(ctx: Any, run: _Run, inputs: Tensor, trigger: Tensor) -> Tensor:  # noqa: ANN401 - as torch has it
        """(rows, ...); ``trigger`` requires a gradient, so that the outcome does where only the weights do."""
        del trigger
        chunks, world = run.chunks, run.chunks.world
        shares = chunks.spans(len(inputs))
        own = shares[world.rank]
        ctx.run, ctx.own, ctx.graphs = run, own, {}
        ctx.save_for_backward(inputs)
        parts = []
        for number, (start, stop) in enumerate(own):
            if run.grad and len(own) - number <= chunks.keep:
                ctx.graphs[start] = run.with_graph(start, stop, inputs)
                parts.append(ctx.graphs[start][1].detach())
            else:
                parts.append(run(start, stop, inputs[start:stop]))
        if not parts:  # no rows here: the shape alone counts
            parts.append(run(0, 1, inputs[:1])[:0])
        counts = [sum(stop - start for start, stop in share) for share in shares]
        return world.gathered(torch.cat(parts), counts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None]:  # noqa: ANN401 - as torch has it
        """Adds the chunks' shares to the weights' gradients; gives the inputs' gradient, whole in every process."""
        (inputs,) = ctx.saved_tensors
        found = torch.zeros_like(inputs)
        for start, stop in ctx.own:
            leaf, made = ctx.graphs.pop(start, None) or ctx.run.with_graph(start, stop, inputs)
            if made.requires_grad:
                torch.autograd.backward([made], [gradient[start:stop]])
            if leaf.grad is not None:
                found[start:stop] = leaf.grad
        ctx.run.chunks.world.add_up([found])
        return None, found, None
