"""Encodes the rows of a step: all at once, or in chunks by gradient caching, shared by several processes.

Gradient caching (Gao et al. 2021, arXiv:2101.06983): the vectors of all rows are made chunk by chunk without a graph,
and the loss is taken of all of them. When its gradient reaches a chunk's vectors, the chunk is encoded again, under the
same dropout masks, and backpropagated. The gradient is the plain step's; the activations of one chunk at a time
are in memory. Of several processes each encodes its share of the chunks, and all have all vectors.

This happens inside the encoder's call, so neither an objective nor its parts know of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.kernels.states import Encoded
from opencse.modules.dense import evaluating
from opencse.objective.vectors.masking import MaskedCopy
from opencse.processes import ALONE, Processes
from opencse.streams import seed_of
from opencse.text.tokenizer import Tokens

RowDisturb = Callable[[Tensor, int], Tensor]
"""Input embeddings (rows, length, hidden) of some rows, and the number of the first of them -> the same shape."""
RowSpan = tuple[int, int]
"""The first row, and one past the last."""
T = TypeVar("T")
Run = Callable[[], tuple[Tensor, ...]]


@dataclass(frozen=True)
class Chunks:
    """How many rows are encoded together, and in which process.

    If ``rows`` is set, the dropout masks of a chunk are a function of one draw of torch's generator and of the chunk's
    first row, so a step is the same for any number of processes. They differ from the masks of all rows at once.

    Attributes:
        rows: rows encoded together; None for all (of several processes: all of each one's equal share).
        keep: how many of the last chunks of every call keep their graph instead of being encoded again.
        world: the processes that share the rows.
    """

    rows: int | None = None
    keep: int = 1
    world: Processes = ALONE

    @property
    def undivided(self) -> bool:
        """Whether all rows are encoded at once, in this process."""
        return self.rows is None and not self.world.several

    def spans(self, rows: int) -> list[list[RowSpan]]:
        """The (start, stop) of the chunks of each process, in the order of the rows.

        Example:
            >>> Chunks(rows=4).spans(10)
            [[(0, 4), (4, 8), (8, 10)]]
        """
        count = self.world.count
        if self.rows is None:
            edges = [rows * i // count for i in range(count + 1)]
            return [[(a, b)] if b > a else [] for a, b in itertools.pairwise(edges)]
        chunks = [(a, min(a + self.rows, rows)) for a in range(0, rows, self.rows)]
        # Whole chunks are shared out: masks are drawn by chunk, so any number of processes draws the same.
        edges = [len(chunks) * i // count for i in range(count + 1)]
        return [chunks[a:b] for a, b in itertools.pairwise(edges)]

    def encode(
        self,
        encoder: SentenceEncoder,
        tokens: Tokens | None,
        *,
        layers: Sequence[int] = (),
        masked: MaskedCopy | None = None,
        disturb: RowDisturb | None = None,
        padded: bool = False,
        dropout: float | None = None,
        pooled: bool = False,
    ) -> Encoded:
        """The training forward pass of ``encoder``, called as a module, with gradient.

        Args:
            encoder: in the mode (dropout or not) of the step; a chunk that is encoded again is in the same mode.
            tokens: the sentences; None for a masked copy alone.
            layers: intermediate layers whose sentence vectors are requested.
            masked: a masked copy.
            disturb: changes the sentences' input embeddings, if given.
            padded: whether every chunk is as long as the longest row of all, for masks that two calls share.
            dropout: the dropout rate of the sentences; None: the encoder's.
            pooled: whether ``Encoded.pooled`` is requested too.
        """
        if self.undivided:
            change = None if disturb is None else _of_rows(disturb, 0)
            only = None if masked is None else masked.labelled
            encoded: Encoded = encoder(tokens, layers=layers, masked=only, disturb=change, dropout=dropout)
            return encoded
        draw = self.draw(encoder, encoder.device)
        sentences: list[_ChunkPass] = []
        copies: list[_ChunkPass] = []
        if tokens is not None:
            # A disturbance has the length of the whole batch.
            keep_length = padded or disturb is not None

            def chunk(start: int, stop: int, change: RowDisturb | None = disturb) -> _ChunkPass:
                rows, changed = _rows(tokens, start, stop, keep_length), change and _of_rows(change, start)

                def run() -> tuple[Tensor, ...]:
                    headless = bool(encoder.batch_heads)
                    encoded = encoder(rows, layers=layers, disturb=changed, headless=headless, dropout=dropout)
                    more = [encoded.pooled.clone()] if pooled else []  # a step's graph has no tensor twice
                    return (encoded.sentence, *(encoded.layers[layer] for layer in layers), *more)

                return _chunk_pass(encoder, draw, start, run)

            sentences = self._own_chunks(len(tokens), chunk, idle=lambda: chunk(0, 1, change=None).empty())
        if masked is not None:

            def hidden(start: int, stop: int) -> _ChunkPass:
                copy = masked.rows(start, stop)
                return _chunk_pass(
                    # Below 0: copies draw other masks than the sentences with the same numbers.
                    encoder,
                    draw,
                    -1 - start,
                    lambda: (encoder(None, masked=copy.labelled).masked_losses,),
                )

            copies = self._own_chunks(len(masked.masked.tokens), hidden, idle=lambda: hidden(0, 1).empty())
        passes = [*sentences, *copies]
        results = [one.result(keep_graph=len(passes) - number <= self.keep) for number, one in enumerate(passes)]
        sentence, before, by_layer, losses = None, None, {}, None
        if tokens is not None:
            counts = self._counts(len(tokens))
            first, *rest = (self._gather(parts, counts) for parts in zip(*results[: len(sentences)], strict=True))
            before = rest.pop() if pooled else None
            if encoder.batch_heads:  # such a head normalises over the batch: it sees all rows, in every process
                first, *rest = map(encoder.project, (first, *rest))
            sentence, by_layer = first, dict(zip(layers, rest, strict=True))
        if masked is not None:
            positions = masked.masked.positions
            shares = self.spans(len(positions))
            counts = [int(positions[s[0][0] : s[-1][1]].sum()) if s else 0 for s in shares]
            (losses,) = (self._gather(parts, counts) for parts in zip(*results[len(sentences) :], strict=True))
        return Encoded(sentence, by_layer, masked_losses=losses, pooled=before)

    @staticmethod
    def draw(network: nn.Module, device: torch.device) -> int | None:
        """Draws the number that the dropout masks of one call depend on; None in evaluation mode, without dropout."""
        return int(torch.randint(2**62, (), device=device)) if network.training else None

    @torch.no_grad()
    def each(self, function: Callable[[Tokens], Tensor], tokens: Tokens) -> Tensor:
        """(rows, ...): ``function`` of the rows, chunk by chunk, without gradient; it must draw nothing."""
        if self.undivided:
            return function(tokens)

        def some(a: int, b: int) -> Tensor:
            return function(_rows(tokens, a, b, False))

        parts = self._own_chunks(len(tokens), some, idle=lambda: some(0, 1)[:0])
        return self.world.gathered(torch.cat(parts), self._counts(len(tokens)))

    def _own_chunks(self, rows: int, make: Callable[[int, int], T], idle: Callable[[], T]) -> list[T]:
        """Calls ``make`` for each of this process's chunks; if it has none, calls ``idle`` for an empty result."""
        return [make(a, b) for a, b in self.spans(rows)[self.world.rank]] or [idle()]

    def _counts(self, rows: int) -> list[int]:
        return [sum(b - a for a, b in share) for share in self.spans(rows)]

    def _gather(self, parts: Sequence[Tensor], counts: Sequence[int]) -> Tensor:
        """The rows of all processes: this one's ``parts`` among the ``counts`` of each."""
        rows = parts[0] if len(parts) == 1 else torch.cat(list(parts))
        if not self.world.several:
            return rows
        gathered: Tensor = _Gathered.apply(rows, tuple(counts), self.world)  # type: ignore[no-untyped-call]
        return gathered


WHOLE = Chunks()


@dataclass(frozen=True)
class _ChunkPass:
    """The forward pass of one chunk, which can be repeated exactly: same masks, same mode, same arithmetic.

    Attributes:
        run: makes the pass.
        seed: the seed of the dropout masks; None without dropout.
        encoder: the encoder that makes it.
        device: the encoder's device.
        dtype: the dtype of autocast; None without autocast.
        no_rows: whether the process has no rows, so that only the shape of the result counts.
    """

    run: Run
    seed: int | None
    encoder: SentenceEncoder
    device: torch.device
    dtype: torch.dtype | None
    no_rows: bool = False

    def __call__(self) -> tuple[Tensor, ...]:
        plain = self.encoder.without_dropout() if self.seed is None else seeded(self.seed, self.device)
        with _cast(self.device, self.dtype), plain:
            return self.run()

    def empty(self) -> _ChunkPass:
        """The same pass with a result of no rows."""
        return replace(self, no_rows=True)

    def result(self, *, keep_graph: bool) -> tuple[Tensor, ...]:
        """Makes the pass: with its graph, or so that it is repeated when its gradient arrives."""
        grad = torch.is_grad_enabled()
        if self.no_rows:
            with torch.no_grad():
                shapes = self()
            return tuple(one[:0].requires_grad_(grad) for one in shapes)  # so that the gathered rows have a gradient
        if keep_graph or not grad:
            return self()
        later: tuple[Tensor, ...] = _Repeated.apply(self, torch.zeros((), requires_grad=True))  # type: ignore[no-untyped-call]
        return later


class _Repeated(torch.autograd.Function):
    """A chunk's forward pass without graph, which the backward pass repeats with a graph."""

    @staticmethod
    def forward(ctx: Any, one: _ChunkPass, trigger: Tensor) -> tuple[Tensor, ...]:  # noqa: ANN401 - as torch has it
        """The result; ``trigger`` requires a gradient, so that the result does."""
        ctx.one = one
        ctx.set_materialize_grads(False)
        return one()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[None, None]:  # noqa: ANN401 - as torch has it
        """Adds the chunk's share to the gradients of the weights."""
        if any(gradient is not None for gradient in gradients):
            with torch.enable_grad():
                again = ctx.one()
            pairs = [(o, g) for o, g in zip(again, gradients, strict=True) if g is not None and o.requires_grad]
            if pairs:
                torch.autograd.backward([o for o, _ in pairs], [g for _, g in pairs])
        return None, None


class _Gathered(torch.autograd.Function):
    """Gathers the rows of all processes; each process gets the gradient of its own rows.

    All processes take the same loss of the same rows, so each has the complete gradient of every row. Nothing is added
    up or divided here; later the weights' gradients are summed over the processes.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, counts: tuple[int, ...], world: Processes) -> Tensor:  # noqa: ANN401
        """(rows of all, ...)."""
        start = sum(counts[: world.rank])
        ctx.rows = slice(start, start + counts[world.rank])
        return world.gathered(rows, counts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401 - as torch has it
        """The gradient of this process's rows."""
        return gradient[ctx.rows], None, None


def _cast(device: torch.device, dtype: torch.dtype | None) -> AbstractContextManager[Any]:
    # Without autocast's cache of cast weights: a copy made without graph would be used where a graph is needed.
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype, cache_enabled=False)


def _cast_dtype(device: torch.device) -> torch.dtype | None:
    return torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else None


def _chunk_pass(encoder: SentenceEncoder, draw: int | None, first_row: int, run: Run) -> _ChunkPass:
    seed = None if draw is None else seed_of(draw, str(first_row))
    return _ChunkPass(run, seed, encoder, encoder.device, _cast_dtype(encoder.device))


def _of_rows(disturb: RowDisturb, start: int) -> Callable[[Tensor], Tensor]:
    return lambda words: disturb(words, start)


def _rows(tokens: Tokens, start: int, stop: int, padded: bool) -> Tokens:
    """Some rows, padded no further than the longest of them unless ``padded``."""
    rows = tokens.rows(start, stop)
    if padded:
        return rows
    longest = int(rows.attention_mask.sum(dim=1).max())
    return rows.columns(longest)


def random_state(device: torch.device) -> Tensor:
    """The state of the generator that dropout draws from on ``device``: a GPU's, Apple's (mps) or the processor's."""
    if device.type == "cuda":
        return torch.cuda.get_rng_state(device)
    return torch.mps.get_rng_state() if device.type == "mps" else torch.get_rng_state()


def restore(state: Tensor, device: torch.device) -> None:
    """The inverse of `random_state`."""
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    elif device.type == "mps":
        torch.mps.set_rng_state(state)
    else:
        torch.set_rng_state(state)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seeds dropout with ``seed`` within the block; afterwards the generator continues where it was."""
    before = random_state(device)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        restore(before, device)


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
    draw, grad = chunks.draw(network, device), torch.is_grad_enabled()
    run = _Run(network, function, chunks, draw, device, _cast_dtype(device), grad=grad)
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
        masks = None if self.draw is None else seeded(seed_of(self.draw, str(start)), self.device)
        with _cast(self.device, self.dtype), masks or evaluating(self.network):
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
