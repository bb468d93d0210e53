"""How a step's rows go through an encoder: at once, or in chunks without graph (gradient caching), shared by processes.

Gradient caching (Gao et al. 2021, arXiv:2101.06983): the vectors of all rows are made chunk by chunk, no graph is kept,
the loss is taken of all of them, and when its gradient comes to a chunk's vectors, the chunk is encoded once more,
under the same dropout masks, and backpropagated. The gradient is that of the plain step; activations of one chunk are
in memory at a time. Among several processes each encodes its share of the chunks, and all have all vectors.

It stands around the encoder's call, so that neither an objective nor its parts know of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.kernels.outputs import Encoded
from opencse.objective.losses import masked_lm
from opencse.objective.vectors.generator import seeded
from opencse.objective.vectors.masking import MaskedCopy
from opencse.processes import ALONE, Processes
from opencse.streams import seed_of
from opencse.text.tokenizer import Tokens

RowDisturb = Callable[[Tensor, int], Tensor]
"""Input embeddings (rows, length, hidden) of some rows, and the number of the first of them -> the same shape."""
Span = tuple[int, int]
T = TypeVar("T")
Run = Callable[[], tuple[Tensor, ...]]


@dataclass(frozen=True)
class Chunks:
    """How many rows go through an encoder together, and in which process.

    With ``rows`` given, the dropout masks of a chunk are a function of one draw of torch's generator and of the chunk's
    first row, so a step is the same however many processes share its chunks. They are other masks than those of all
    rows at once.

    Attributes:
        rows: encoded together; None for all (of a process's equal share, where there are several).
        keep: the last chunks of every call, whose graph is kept instead of being made again.
        world: the processes that share the rows.
    """

    rows: int | None = None
    keep: int = 1
    world: Processes = ALONE

    @property
    def whole(self) -> bool:
        """Whether all rows go at once, here."""
        return self.rows is None and not self.world.several

    def spans(self, rows: int) -> list[list[Span]]:
        """For each process the (start, stop) of its chunks, in the order of the rows."""
        count = self.world.count
        if self.rows is None:
            edges = [rows * i // count for i in range(count + 1)]
            return [[(a, b)] if b > a else [] for a, b in itertools.pairwise(edges)]
        chunks = [(a, min(a + self.rows, rows)) for a in range(0, rows, self.rows)]
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
    ) -> Encoded:
        """The training forward of ``encoder``, called as a module, with gradient.

        Args:
            encoder: in the mode (dropout or not) that counts; made again, a chunk is in the same one.
            tokens: the sentences; None for a masked copy alone.
            layers: intermediate layers whose sentence vectors are wanted.
            masked: a masked copy.
            disturb: changes the sentences' input embeddings, if given.
            padded: leave every chunk as long as the longest row of all, for masks that two calls are to share.
        """
        if self.whole:
            change = None if disturb is None else _from(disturb, 0)
            only = None if masked is None else masked.masked
            encoded = encoder(tokens, layers=layers, masked=only, disturb=change)
            losses = None if masked is None else masked_lm(encoded.masked_logits, masked.labels)
            return Encoded(encoded.sentence, encoded.layers, masked_losses=losses)
        draw = self.draw(encoder, encoder.device)
        runs: list[_Pass] = []
        headless = bool(encoder.batch_heads)
        if tokens is not None:
            held = padded or disturb is not None

            def some(a: int, b: int, change: RowDisturb | None = disturb) -> _Pass:
                rows = _cut(tokens, a, b, held)
                return _pass(encoder, draw, a, _sentences(encoder, rows, layers, change, a, headless=headless))

            runs += self._mine(len(tokens), some, idle=lambda: some(0, 1, change=None).empty())
        edge = len(runs)
        if masked is not None:
            copy = masked

            def some_masked(a: int, b: int) -> _Pass:
                return _pass(encoder, draw, -1 - a, _masked(encoder, copy.rows(a, b)))

            runs += self._mine(len(copy.masked.tokens), some_masked, idle=lambda: some_masked(0, 1).empty())
        made = [one.made(kept=len(runs) - i <= self.keep) for i, one in enumerate(runs)]
        sentence, by_layer, losses = None, {}, None
        if tokens is not None:
            counts = self._counts(len(tokens))
            first, *rest = (self._all(parts, counts) for parts in zip(*made[:edge], strict=True))
            if headless:  # the head sees all rows, in every process
                first, *rest = map(encoder.project, (first, *rest))
            sentence, by_layer = first, dict(zip(layers, rest, strict=True))
        if masked is not None:
            positions = masked.masked.positions
            shares = self.spans(len(positions))
            counts = [int(positions[s[0][0] : s[-1][1]].sum()) if s else 0 for s in shares]
            (losses,) = (self._all(parts, counts) for parts in zip(*made[edge:], strict=True))
        return Encoded(sentence, by_layer, masked_losses=losses)

    @staticmethod
    def draw(network: nn.Module, device: torch.device) -> int | None:
        """What the dropout masks of one call come from; None in evaluation mode, where nothing is dropped out."""
        return int(torch.randint(2**62, (), device=device)) if network.training else None

    @torch.no_grad()
    def each(self, function: Callable[[Tokens], Tensor], tokens: Tokens) -> Tensor:
        """(rows, ...): ``function`` of the rows, chunk by chunk, without gradient; it draws nothing."""
        if self.whole:
            return function(tokens)

        def some(a: int, b: int) -> Tensor:
            return function(_cut(tokens, a, b, False))

        parts = self._mine(len(tokens), some, idle=lambda: some(0, 1)[:0])
        return self.world.gathered(torch.cat(parts), self._counts(len(tokens)))

    def _mine(self, rows: int, make: Callable[[int, int], T], idle: Callable[[], T]) -> list[T]:
        """What ``make`` makes of each of this process's chunks; where it has none, the empty one of ``idle``."""
        return [make(a, b) for a, b in self.spans(rows)[self.world.rank]] or [idle()]

    def _counts(self, rows: int) -> list[int]:
        return [sum(b - a for a, b in share) for share in self.spans(rows)]

    def _all(self, parts: Sequence[Tensor], counts: Sequence[int]) -> Tensor:
        own = parts[0] if len(parts) == 1 else torch.cat(list(parts))
        if not self.world.several:
            return own
        gathered: Tensor = _Gathered.apply(own, tuple(counts), self.world)  # type: ignore[no-untyped-call]
        return gathered


WHOLE = Chunks()


@dataclass(frozen=True)
class _Pass:
    """One chunk's forward, which can be made again: same masks, same mode, same arithmetic.

    Attributes:
        run: the forward.
        seed: of the dropout masks; None where nothing is dropped out.
        encoder: what makes it.
        device: where.
        dtype: of autocast; None without.
        nothing: whether the process has no rows, and only the shape of what it makes counts.
    """

    run: Run
    seed: int | None
    encoder: SentenceEncoder
    device: torch.device
    dtype: torch.dtype | None
    nothing: bool = False

    def __call__(self) -> tuple[Tensor, ...]:
        with ExitStack() as around:
            for one in self._contexts():
                around.enter_context(one)
            return self.run()

    def _contexts(self) -> list[AbstractContextManager[Any]]:
        # Without autocast's cache of cast weights: one made without graph would be used again where a graph is wanted.
        kind = self.device.type
        cast: AbstractContextManager[Any] = nullcontext()
        if self.dtype is not None:
            cast = torch.autocast(kind, self.dtype, cache_enabled=False)
        if self.seed is None:
            return [cast, self.encoder.without_dropout()]
        return [cast, seeded(self.seed, self.device)]

    def empty(self) -> _Pass:
        """The same, giving no row."""
        return _Pass(self.run, self.seed, self.encoder, self.device, self.dtype, nothing=True)

    def made(self, *, kept: bool) -> tuple[Tensor, ...]:
        """The outcome, with its graph if ``kept``, else with what makes it again when its gradient comes."""
        grad = torch.is_grad_enabled()
        if self.nothing:
            with torch.no_grad():
                found = self()
            return tuple(one[:0].requires_grad_(grad) for one in found)  # so that the gathered rows have a gradient
        if kept or not grad:
            return self()
        later: tuple[Tensor, ...] = _MadeAgain.apply(self, torch.zeros((), requires_grad=True))  # type: ignore[no-untyped-call]
        return later


class _MadeAgain(torch.autograd.Function):
    """A chunk's forward without graph, whose backward makes it again with one."""

    @staticmethod
    def forward(ctx: Any, one: _Pass, trigger: Tensor) -> tuple[Tensor, ...]:  # noqa: ANN401 - as torch has it
        """The outcome alone; ``trigger`` requires a gradient, so that the outcome does."""
        del trigger
        ctx.one = one
        ctx.set_materialize_grads(False)
        return one()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[None, None]:  # noqa: ANN401 - as torch has it
        """Adds the chunk's share to the gradients of whatever requires one."""
        if any(gradient is not None for gradient in gradients):
            with torch.enable_grad():
                again = ctx.one()
            pairs = [(o, g) for o, g in zip(again, gradients, strict=True) if g is not None and o.requires_grad]
            if pairs:
                torch.autograd.backward([o for o, _ in pairs], [g for _, g in pairs])
        return None, None


class _Gathered(torch.autograd.Function):
    """The rows of all processes; each takes back the gradient of its own.

    All processes take the same loss of the same rows, so the gradient of a row is whole in each of them, and nothing is
    added up or divided here: the sum over processes is that of the weights' gradients.
    """

    @staticmethod
    def forward(ctx: Any, own: Tensor, counts: tuple[int, ...], world: Processes) -> Tensor:  # noqa: ANN401
        """(rows of all, ...)."""
        start = sum(counts[: world.rank])
        ctx.own = slice(start, start + counts[world.rank])
        return world.gathered(own, counts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401 - as torch has it
        """The own rows' gradient."""
        return gradient[ctx.own], None, None


def _pass(encoder: SentenceEncoder, draw: int | None, place: int, run: Run) -> _Pass:
    device = encoder.device
    dtype = torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else None
    seed = None if draw is None else seed_of(draw, str(place))
    return _Pass(run, seed, encoder, device, dtype)


def _sentences(
    encoder: SentenceEncoder,
    tokens: Tokens,
    layers: Sequence[int],
    disturb: RowDisturb | None,
    start: int,
    *,
    headless: bool,
) -> Run:
    def run() -> tuple[Tensor, ...]:
        change = None if disturb is None else _from(disturb, start)
        encoded = encoder(tokens, layers=layers, disturb=change, headless=headless)
        return (encoded.sentence, *(encoded.layers[layer] for layer in layers))

    return run


def _masked(encoder: SentenceEncoder, copy: MaskedCopy) -> Run:
    def run() -> tuple[Tensor, ...]:
        logits = encoder(None, masked=copy.masked).masked_logits
        return (masked_lm(logits, copy.labels),)

    return run


def _from(disturb: RowDisturb, start: int) -> Callable[[Tensor], Tensor]:
    return lambda words: disturb(words, start)


def _cut(tokens: Tokens, start: int, stop: int, padded: bool) -> Tokens:
    """Some rows, padded no further than the longest of them unless ``padded``."""
    rows = tokens.rows(start, stop)
    if padded:
        return rows
    longest = int(rows.attention_mask.sum(dim=1).max())
    return rows.columns(longest)
