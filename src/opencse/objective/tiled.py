"""InfoNCE in constant memory: the similarities are made tile by tile, used, and forgotten.

A tile is some anchors by all columns of one source, so that each anchor's denominator is whole in it. Since the loss is
a mean, its gradient is known as soon as a tile is: it is added up in the same pass, and nothing but the vectors and
their gradients is kept. With N anchors, K columns and d dimensions that is ``6 N K d`` operations and O((N + K) d)
numbers, where the dense loss takes as many operations and several times N K numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from opencse.objective.columns import AnyColumns, LogitColumns, Pairs, VectorColumns, same_text
from opencse.objective.losses import at_least_float32

_EPS = 1e-12  # as torch.nn.functional.normalize


class Sums(NamedTuple):
    """The loss of a batch, and what is told of it, all scalars.

    Attributes:
        loss: the mean over the anchors.
        positive: the sum of the positives' similarities.
        negatives: the sum of the logits of all columns that count, weights aside.
        counted: how many columns count, over all anchors.
        duplicates: how many are left out for their text.
    """

    loss: Tensor
    positive: Tensor
    negatives: Tensor
    counted: Tensor
    duplicates: Tensor


def tiled_info_nce(
    positive: Pairs,
    negatives: Sequence[AnyColumns],
    averaged: Sequence[Sequence[int]],
    *,
    label_smoothing: float,
    tile_bytes: int,
) -> Sums:
    """The mean of `losses.info_nce` over the anchors, without a matrix of all similarities; it can be derived once.

    Args:
        positive: the positives' similarities.
        negatives: the columns of each source.
        averaged: the loss is the mean of those with these sources each (numbers into ``negatives``).
        label_smoothing: eps in [0, 1).
        tile_bytes: of the largest matrix of similarities that is made; at least one anchor's are.
    """
    sources = [_Given.of(columns) if isinstance(columns, LogitColumns) else columns for columns in negatives]
    plan = _Plan(positive, sources, averaged, label_smoothing, tile_bytes, torch.is_grad_enabled())
    return Sums(*_Tiled.apply(plan, *plan.tensors))  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class _Given:
    """Columns that came as logits, and these with their weights."""

    columns: LogitColumns
    weighted: Tensor

    @classmethod
    def of(cls, columns: LogitColumns) -> _Given:
        return cls(columns, at_least_float32(columns.logits) + columns.log_weight)

    @property
    def shape(self) -> tuple[int, int]:
        return self.columns.shape


@dataclass(frozen=True)
class _Plan:
    positive: Pairs
    negatives: Sequence[VectorColumns | _Given]
    averaged: Sequence[Sequence[int]]
    label_smoothing: float
    tile_bytes: int
    gradients: bool

    @property
    def tensors(self) -> list[Tensor]:
        """What the loss is derived by."""
        found = [self.positive.left, self.positive.right]
        for columns in self.negatives:
            found += [columns.weighted] if isinstance(columns, _Given) else [columns.left, columns.right]
        return found

    def tiles(self, itemsize: int) -> list[slice]:
        n = len(self.positive.left)
        widest = max(columns.shape[1] for columns in self.negatives)
        rows = min(n, max(1, self.tile_bytes // (itemsize * max(1, widest))))
        return [slice(start, min(n, start + rows)) for start in range(0, n, rows)]


class _Tiled(torch.autograd.Function):
    """The loss; its gradients are made with it."""

    @staticmethod
    def forward(ctx: Any, plan: _Plan, *tensors: Tensor) -> tuple[Tensor, ...]:  # noqa: ANN401 - torch's context
        with torch.autocast(tensors[0].device.type, enabled=False):
            work = _Work(plan)
            sums = torch.stack([work.tile(rows) for rows in plan.tiles(work.dtype.itemsize)]).sum(dim=0)
            ctx.gradients = work.finished()
        loss, *told = sums.unbind()
        ctx.mark_non_differentiable(*told)
        return loss, *told

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, loss: Tensor, *told: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        del told
        # Copies would take as much memory again; on a GPU, to look at the number would wait for all work in flight.
        if loss.device.type == "cpu" and float(loss) == 1.0:
            return (None, *ctx.gradients)
        # In place would be wrong for whoever asks for the gradient a second time.
        return (None, *(None if gradient is None else gradient * loss.to(gradient) for gradient in ctx.gradients))


@dataclass
class _Vectors:
    """A tensor of vectors: in the form that is multiplied, and the gradient of that form."""

    given: Tensor
    cosine: bool
    form: Tensor
    gradient: Tensor | None = None

    @classmethod
    def of(cls, given: Tensor, cosine: bool) -> _Vectors:
        raised = at_least_float32(given.detach())
        form = raised / raised.norm(dim=1, keepdim=True).clamp_min_(_EPS) if cosine else raised
        return cls(given, cosine, form)

    def sum_into(self) -> Tensor:
        if self.gradient is None:
            self.gradient = torch.zeros_like(self.form, memory_format=torch.contiguous_format)
        return self.gradient

    def finished(self) -> Tensor | None:
        """The gradient of what was given; the form is lost."""
        gradient = self.gradient
        if gradient is not None and self.cosine:
            norm = at_least_float32(self.given.detach()).norm(dim=1, keepdim=True)
            # a product of rows, where vecdot would hold all products before it sums them
            along = torch.bmm(gradient.unsqueeze(1), self.form.unsqueeze(2)).squeeze(2).masked_fill_(norm < _EPS, 0.0)
            gradient.sub_(self.form.mul_(along)).div_(norm.clamp_min_(_EPS))
        return None if gradient is None else gradient.to(self.given.dtype)


@dataclass
class _Block:
    """One source's share of a tile: ``exp(logits - top)``, zero where left out, and the rows' figures.

    Attributes:
        powers: (R, K).
        log_sum: (R,) log of the sum of all exponentials, weights included.
        top: (R,) what was taken off, less the weight: a column's exponential is ``powers * exp(top)``.
        counted: (R,) columns that count.
        total: (R,) sum of their logits, weights included; 0 where nobody asked.
        told: (2,) sum of their logits without weights, and the duplicates.
        left_out: sets a matrix of the powers' shape where columns do not count.
    """

    powers: Tensor
    log_sum: Tensor
    top: Tensor
    counted: Tensor
    total: Tensor
    told: Tensor
    left_out: _LeftOut


@dataclass
class _LeftOut:
    """Which columns of some rows do not count, as few places as they are."""

    own: tuple[Tensor, Tensor] | None = None
    rows: Tensor | None = None
    same: Tensor | None = None
    everywhere: Tensor | None = None

    def set(self, matrix: Tensor, value: float) -> None:
        if self.everywhere is not None:
            matrix.masked_fill_(self.everywhere, value)
        if self.own is not None:
            matrix[self.own] = value
        if self.rows is not None and self.same is not None:
            matrix[self.rows] = matrix[self.rows].masked_fill_(self.same, value)


@dataclass
class _Work:
    """What the tiles of one loss share."""

    plan: _Plan
    vectors: dict[int, _Vectors] = field(default_factory=dict)
    given_gradients: dict[int, Tensor] = field(default_factory=dict)
    repeated: list[Tensor | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        positive, negatives = self.plan.positive, self.plan.negatives
        pairs: list[Pairs | VectorColumns] = [positive, *(c for c in negatives if isinstance(c, VectorColumns))]
        for pair in pairs:
            for side in (pair.left, pair.right):
                if id(side) not in self.vectors:
                    self.vectors[id(side)] = _Vectors.of(side, pair.scoring.similarity == "cosine")
        self.repeated = [_rows_with_duplicates(c) if isinstance(c, VectorColumns) else None for c in negatives]
        self.dtype = self.vectors[id(positive.left)].form.dtype

    def finished(self) -> tuple[Tensor | None, ...]:
        """The gradient of every tensor that was given; one that was given twice has it at its first place."""
        done: dict[int, Tensor | None] = {
            id(columns.weighted): self.given_gradients.get(number)
            for number, columns in enumerate(self.plan.negatives)
            if isinstance(columns, _Given)
        }
        for tensor in self.plan.tensors:
            if id(tensor) in self.vectors:
                done[id(tensor)] = self.vectors.pop(id(tensor)).finished()
        return tuple(done.pop(id(tensor), None) for tensor in self.plan.tensors)

    def tile(self, rows: slice) -> Tensor:
        """(5,): loss, positives, negatives, counted, duplicates of these anchors, the loss divided by all N."""
        plan, eps = self.plan, self.plan.label_smoothing
        n = len(plan.positive.left)
        similarity = self._similarity(plan.positive, rows)
        positive = similarity * (plan.positive.scale / plan.positive.scoring.temperature)
        blocks = [self._block(number, columns, rows) for number, columns in enumerate(plan.negatives)]
        share = 1.0 / (n * len(plan.averaged))
        loss = positive.new_zeros(())
        of_positive = torch.zeros_like(positive)
        scales = [torch.zeros_like(positive) for _ in blocks]
        smooth = [torch.zeros_like(positive) for _ in blocks]
        for numbers in plan.averaged:
            normaliser = torch.logsumexp(torch.stack([positive, *(blocks[b].log_sum for b in numbers)]), dim=0)
            columns = 1.0 + sum((blocks[b].counted for b in numbers), torch.zeros_like(positive))
            total = positive + sum((blocks[b].total for b in numbers), torch.zeros_like(positive))
            loss += share * (normaliser - (1.0 - eps) * positive - eps * total / columns).sum()
            of_positive += share * ((positive - normaliser).exp() - (1.0 - eps) - eps / columns)
            for b in numbers:
                scales[b] += share * (blocks[b].top - normaliser).exp()
                smooth[b] += share * eps / columns
        if plan.gradients:
            self._add_positive(of_positive, rows)
            for number, block in enumerate(blocks):
                self._add_block(number, block, scales[number], smooth[number], rows)
        told = torch.stack([block.told for block in blocks]).sum(dim=0)
        counted = torch.stack([block.counted for block in blocks]).sum()
        return torch.stack([loss, similarity.sum(), told[0], counted, told[1]])

    def _similarity(self, pairs: Pairs, rows: slice) -> Tensor:
        left, right = (self.vectors[id(side)].form[rows] for side in (pairs.left, pairs.right))
        return (left * right).sum(dim=1)

    def _add_positive(self, gradient: Tensor, rows: slice) -> None:
        pairs = self.plan.positive
        factor = (gradient * (pairs.scale / pairs.scoring.temperature)).unsqueeze(1)
        for side, other in ((pairs.left, pairs.right), (pairs.right, pairs.left)):
            if side.requires_grad:
                self.vectors[id(side)].sum_into()[rows].addcmul_(factor, self.vectors[id(other)].form[rows])

    def _block(self, number: int, columns: VectorColumns | _Given, rows: slice) -> _Block:
        if isinstance(columns, _Given):
            return self._given(columns, rows)
        left = self.vectors[id(columns.left)].form[rows]
        logits = (left / columns.scoring.temperature) @ self.vectors[id(columns.right)].form.T
        out, duplicates = self._left_out(number, columns, rows)
        out.set(logits, 0.0)
        sums = logits.sum(dim=1)
        counted = logits.new_full((len(left),), logits.shape[1])
        counted -= _counts(out, logits)
        told = torch.stack([sums.sum(), duplicates])
        total = sums + columns.log_weight * counted
        own = columns.own
        if own is not None and own.log_weight:
            places = _own_places(columns, rows)
            logits[places] += own.log_weight
            if self.plan.label_smoothing:
                out.set(logits, 0.0)
                total = logits.sum(dim=1) + columns.log_weight * counted
        return _exponentials(logits, out, counted, total, told, columns.log_weight)

    def _given(self, given: _Given, rows: slice) -> _Block:
        part = given.columns.rows(rows)
        out = _LeftOut(everywhere=part.left_out)
        plain, logits = (t.detach().to(self.dtype, copy=True) for t in (part.logits, given.weighted[rows]))
        out.set(plain, 0.0)
        out.set(logits, 0.0)
        counted = (~part.left_out).sum(dim=1).to(self.dtype)
        duplicates = plain.new_zeros(()) if part.duplicates is None else part.duplicates.sum().to(self.dtype)
        return _exponentials(logits, out, counted, logits.sum(dim=1), torch.stack([plain.sum(), duplicates]), 0.0)

    def _left_out(self, number: int, columns: VectorColumns, rows: slice) -> tuple[_LeftOut, Tensor]:
        """What does not count in these rows, and how many of it are duplicates."""
        own = columns.own
        out = _LeftOut()
        duplicates = columns.left.new_zeros((), dtype=self.dtype)
        if own is not None and own.excluded:
            out.own = _own_places(columns, rows)
        repeated, texts = self.repeated[number], columns.texts
        if repeated is None or texts is None:
            return out, duplicates
        first, last = (int(place) for place in torch.searchsorted(repeated, torch.tensor([rows.start, rows.stop])))
        if first == last:
            return out, duplicates
        chosen = repeated[first:last].to(columns.left.device)
        same = same_text(texts[0][chosen], texts[1])
        if own is not None and not own.texts:
            same[_own_places(columns, chosen)] = False
        out.rows, out.same = chosen - rows.start, same
        return out, same.sum().to(self.dtype)

    def _add_block(self, number: int, block: _Block, scale: Tensor, smooth: Tensor, rows: slice) -> None:
        columns, powers = self.plan.negatives[number], block.powers
        if self.plan.label_smoothing or isinstance(columns, _Given):
            powers.mul_(scale.unsqueeze(1)).sub_(smooth.unsqueeze(1))
            block.left_out.set(powers, 0.0)
            scale = torch.ones_like(scale)
        if isinstance(columns, _Given):
            if columns.weighted.requires_grad:
                if number not in self.given_gradients:
                    self.given_gradients[number] = torch.zeros_like(columns.weighted)
                self.given_gradients[number][rows] = powers
            return
        left, right = (self.vectors[id(side)] for side in (columns.left, columns.right))
        factor = (scale / columns.scoring.temperature).unsqueeze(1)
        if columns.left.requires_grad:
            left.sum_into()[rows].addcmul_(factor, powers @ right.form)
        if columns.right.requires_grad:
            right.sum_into().addmm_(powers.T, left.form[rows] * factor)


def _exponentials(
    logits: Tensor, out: _LeftOut, counted: Tensor, total: Tensor, told: Tensor, log_weight: float
) -> _Block:
    """The block of a tile's ``logits``, which are lost."""
    out.set(logits, float("-inf"))
    if logits.shape[1] == 0:
        none = logits.new_full((len(logits),), float("-inf"))
        return _Block(logits, none, none, counted, total, told, out)
    top = logits.amax(dim=1)
    finite = top.masked_fill(top == float("-inf"), 0.0)  # a row in which nothing counts
    powers = logits.sub_(finite.unsqueeze(1)).exp_()
    return _Block(powers, top + powers.sum(dim=1).log() + log_weight, top + log_weight, counted, total, told, out)


def _own_places(columns: VectorColumns, rows: slice | Tensor) -> tuple[Tensor, Tensor]:
    """(R, 1), (1 or R, T): where the anchors of ``rows`` have their own columns."""
    n, k = columns.shape
    device = columns.left.device
    anchors = torch.arange(rows.start, rows.stop, device=device) if isinstance(rows, slice) else rows
    places = anchors.unsqueeze(1) + torch.arange(0, k, n, device=device)
    return torch.arange(len(anchors), device=device).unsqueeze(1), places


def _counts(out: _LeftOut, like: Tensor) -> Tensor:
    """(R,) columns of each row that do not count."""
    counts = like.new_zeros(len(like))
    if out.own is not None:
        counts += out.own[1].shape[1]
    if out.rows is not None and out.same is not None:
        counts[out.rows] += out.same.sum(dim=1).to(like.dtype)
    return counts


def _rows_with_duplicates(columns: VectorColumns) -> Tensor | None:
    """The anchors that have any column of their own text, in order, on the CPU; found by sorting, not by comparing."""
    if columns.texts is None or columns.shape[1] == 0:
        return None
    anchors, texts = (keys.contiguous() for keys in columns.texts)
    in_order = texts.flatten().sort().values
    found = torch.searchsorted(in_order, anchors, right=True) - torch.searchsorted(in_order, anchors)
    matches = found.sum(dim=1)
    if columns.own is not None and not columns.own.texts:
        own = texts.reshape(-1, len(anchors), texts.shape[1])  # (T, N, C)
        matches = matches - (own.unsqueeze(3) == anchors[:, None, :]).sum(dim=(0, 2, 3))
    return matches.nonzero().squeeze(1).cpu()
