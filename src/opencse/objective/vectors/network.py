"""Runs a network of a part (a generator, a discriminator) over the rows of a step, chunked like the encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from opencse.modules.modes import evaluating
from opencse.objective.vectors.chunks import Chunks
from opencse.objective.vectors.generator import seeded
from opencse.streams import seed_of

RowsFunction = Callable[[int, int, Tensor], Tensor]
"""Numbers a and b, and the inputs (b - a, ...) of the rows from a to b -> their results (b - a, ...)."""


def through(network: nn.Module, function: RowsFunction, inputs: Tensor, chunks: Chunks) -> Tensor:
    """Runs a network over the rows of a step in its chunks, each process a share of them.

    The gradient reaches the weights of ``network`` and ``inputs``. As with gradient caching of the encoder, a chunk's
    graph is made again, under the same dropout masks, when its gradient arrives; only the last chunks keep theirs.
    Each of several processes has the weights' gradients of its own rows, to be added up (`Part.networks`), and the
    complete gradient of ``inputs``.

    Args:
        network: the network that ``function`` calls; in training mode, each chunk has dropout masks of its own seed.
        function: called with the rows of each chunk; only ``network`` and its third argument may take a gradient.
        inputs: (rows, ...), the same in every process.
        chunks: the chunks of the step.

    Returns:
        (rows, ...), all rows in every process.
    """
    if chunks.undivided:
        return function(0, len(inputs), inputs)
    device = inputs.device
    draw = chunks.draw(network, device)
    dtype = torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else None
    run = _Run(network, function, chunks, draw, device, dtype, grad=torch.is_grad_enabled())
    outputs: Tensor = _Through.apply(run, inputs, torch.zeros((), device=device, requires_grad=True))  # type: ignore[no-untyped-call]
    return outputs


@dataclass(frozen=True)
class _Run:
    """The network's forward pass of any rows, which can be repeated exactly: same masks, same mode, same arithmetic."""

    network: nn.Module
    function: RowsFunction
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
        """The inputs of the rows as a leaf, and their results with graph."""
        leaf = inputs[start:stop].detach().requires_grad_()
        with torch.enable_grad():
            return leaf, self(start, stop, leaf)


class _Through(torch.autograd.Function):
    """The results of all rows; the backward pass sends each chunk's gradient through its graph."""

    @staticmethod
    def forward(ctx: Any, run: _Run, inputs: Tensor, trigger: Tensor) -> Tensor:  # noqa: ANN401 - as torch has it
        """(rows, ...); ``trigger`` requires a gradient, so that the result does where only the weights do."""
        del trigger
        chunks, world = run.chunks, run.chunks.world
        shares = chunks.spans(len(inputs))
        spans = shares[world.rank]
        ctx.run, ctx.spans, ctx.graphs = run, spans, {}
        ctx.save_for_backward(inputs)
        parts = []
        for number, (start, stop) in enumerate(spans):
            if run.grad and len(spans) - number <= chunks.keep:
                ctx.graphs[start] = run.with_graph(start, stop, inputs)
                parts.append(ctx.graphs[start][1].detach())
            else:
                parts.append(run(start, stop, inputs[start:stop]))
        if not parts:  # no rows in this process: only the shape counts
            parts.append(run(0, 1, inputs[:1])[:0])
        counts = [sum(stop - start for start, stop in share) for share in shares]
        return world.gathered(torch.cat(parts), counts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None]:  # noqa: ANN401 - as torch has it
        """Adds the chunks' shares to the weights' gradients; returns the complete gradient of the inputs."""
        (inputs,) = ctx.saved_tensors
        total = torch.zeros_like(inputs)
        for start, stop in ctx.spans:
            leaf, outputs = ctx.graphs.pop(start, None) or ctx.run.with_graph(start, stop, inputs)
            if outputs.requires_grad:
                torch.autograd.backward([outputs], [gradient[start:stop]])
            if leaf.grad is not None:
                total[start:stop] = leaf.grad
        ctx.run.chunks.world.add_up([total])
        return None, total, None


def sums_by_row(values: Tensor, row: Tensor, column: Tensor, shape: Sequence[int]) -> Tensor:
    """(rows, d): the sums of what is at each row's columns; the same bits every time, on a GPU too.

    Args:
        values: (T, d).
        row: (T,) of each value.
        column: (T,) of each value; no place occurs twice.
        shape: (rows, columns).

    Example:
        >>> one = torch.ones(3, 1)
        >>> sums_by_row(one, torch.tensor([0, 0, 2]), torch.tensor([1, 3, 0]), (3, 4)).tolist()
        [[2.0], [0.0], [1.0]]
    """
    grid = values.new_zeros(*shape, values.shape[1])
    grid[row, column] = values  # adding to one row at a time is done in any order by a GPU
    return grid.sum(dim=1)
