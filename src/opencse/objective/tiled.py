"""InfoNCE in constant memory: similarities are computed tile by tile, used for loss and gradient, and dropped.

A tile is some anchors by all columns of one source, so that it has the complete denominator of each of its anchors.
Since the loss is a mean, a tile's share of the gradient is known as soon as the tile is: it is added up in the same
pass, and only the vectors and their gradients stay in memory. With N anchors, K columns and d dimensions that takes
``6 N K d`` operations and O((N + K) d) memory; the dense loss takes as many operations and several times N K numbers.

`tiled_info_nce` is the entry. `_Tiles` computes loss and gradients; for each tile it makes one `_Block` per source.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from opencse.objective.columns import AnyColumns, LogitColumns, Pairs, VectorColumns, same_text
from opencse.objective.similarity import at_least_float32

_EPS = 1e-12  # as torch.nn.functional.normalize


class TiledLoss(NamedTuple):
    """The loss of a batch, and its figures for the log, all scalars.

    Attributes:
        loss: the mean over the anchors.
        positive: the sum of the positives' similarities.
        negatives: the sum of the logits of all columns that count, weights aside.
        counted: how many columns count, over all anchors.
        duplicates: how many columns are left out because of equal texts.
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
) -> TiledLoss:
    """Computes the mean of `losses.info_nce_from_logits` over the anchors, without a matrix of all similarities.

    Its gradient is computed with it, so it has first derivatives only.

    Args:
        positive: the positives' similarities.
        negatives: the columns of each source.
        averaged: lists of sources, as numbers into ``negatives``; the loss is the mean of the losses with each list.
        label_smoothing: eps in [0, 1).
        tile_bytes: most bytes of a matrix of similarities; it has the row of one anchor at least.
    """
    sources = [_GivenLogits.of(columns) if isinstance(columns, LogitColumns) else columns for columns in negatives]
    plan = _Plan(positive, sources, averaged, label_smoothing, tile_bytes, torch.is_grad_enabled())
    return TiledLoss(*_Tiled.apply(plan, *plan.tensors))  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class _GivenLogits:
    """Columns that a source gave as logits, and the logits with their weights."""

    columns: LogitColumns
    weighted: Tensor

    @classmethod
    def of(cls, columns: LogitColumns) -> _GivenLogits:
        return cls(columns, at_least_float32(columns.logits) + columns.log_weight)

    @property
    def shape(self) -> tuple[int, int]:
        return self.columns.shape


@dataclass(frozen=True)
class _Plan:
    """What is computed: the arguments of `tiled_info_nce`, and whether gradients are needed."""

    positive: Pairs
    negatives: Sequence[VectorColumns | _GivenLogits]
    averaged: Sequence[Sequence[int]]
    label_smoothing: float
    tile_bytes: int
    gradients: bool

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors that get a gradient."""
        tensors = [self.positive.left, self.positive.right]
        for columns in self.negatives:
            tensors += [columns.weighted] if isinstance(columns, _GivenLogits) else [columns.left, columns.right]
        return tensors

    def tiles(self, itemsize: int) -> list[slice]:
        """The anchors of each tile."""
        n = len(self.positive.left)
        widest = max(columns.shape[1] for columns in self.negatives)
        rows = min(n, max(1, self.tile_bytes // (itemsize * max(1, widest))))
        return [slice(start, min(n, start + rows)) for start in range(0, n, rows)]


class _Tiled(torch.autograd.Function):
    """The loss as an operation of autograd; its gradients are computed in the forward pass."""

    @staticmethod
    def forward(ctx: Any, plan: _Plan, *tensors: Tensor) -> tuple[Tensor, ...]:  # noqa: ANN401 - torch's context
        # Autocast would make the products of similarities in bf16.
        with torch.autocast(tensors[0].device.type, enabled=False):
            tiles = _Tiles(plan)
            sums = torch.stack([tiles.add(rows) for rows in plan.tiles(tiles.dtype.itemsize)]).sum(dim=0)
            ctx.gradients = tiles.gradients()
        loss, *figures = sums.unbind()
        ctx.mark_non_differentiable(*figures)
        return loss, *figures

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, loss: Tensor, *figures: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        del figures
        # Copies would take as much memory again; reading the number on a GPU would wait for all work in flight.
        if loss.device.type == "cpu" and float(loss) == 1.0:
            return (None, *ctx.gradients)
        # Not in place: a second backward pass would read the scaled gradients.
        return (None, *(None if gradient is None else gradient * loss.to(gradient) for gradient in ctx.gradients))


@dataclass
class _Vectors:
    """A tensor of vectors as they are multiplied (normalised for cosine), and the gradient in that form.

    Attributes:
        original: (n, d) the vectors as the caller passed them.
        cosine: whether they are normalised.
        form: (n, d) the vectors as they are multiplied, float32 at least.
        gradient: (n, d) the gradient of ``form`` so far; None before the first share.
    """

    original: Tensor
    cosine: bool
    form: Tensor
    gradient: Tensor | None = None

    @classmethod
    def of(cls, original: Tensor, cosine: bool) -> _Vectors:
        raised = at_least_float32(original.detach())
        form = raised / raised.norm(dim=1, keepdim=True).clamp_min_(_EPS) if cosine else raised
        return cls(original, cosine, form)

    def gradient_sum(self) -> Tensor:
        """The gradient to add to; zeros at first."""
        if self.gradient is None:
            self.gradient = torch.zeros_like(self.form, memory_format=torch.contiguous_format)
        return self.gradient

    def original_gradient(self) -> Tensor | None:
        """The gradient of ``original``, through the normalisation; ``form`` is overwritten."""
        gradient = self.gradient
        if gradient is not None and self.cosine:
            norm = at_least_float32(self.original.detach()).norm(dim=1, keepdim=True)
            # a product of rows, where vecdot would hold all products before it sums them
            along = torch.bmm(gradient.unsqueeze(1), self.form.unsqueeze(2)).squeeze(2).masked_fill_(norm < _EPS, 0.0)
            gradient.sub_(self.form.mul_(along)).div_(norm.clamp_min_(_EPS))
        return None if gradient is None else gradient.to(self.original.dtype)


@dataclass
class _Block:
    """One source's part of a tile of R anchors: ``exp(logits - top)``, zero where left out, and sums per anchor.

    Attributes:
        powers: (R, K).
        log_sum: (R,) log of the sum of all exponentials, weights included.
        top: (R,) the subtracted maximum plus the weight: a column's exponential is ``powers * exp(top)``.
        counted: (R,) columns that count.
        total: (R,) sum of their logits, weights included.
        figures: (2,) sum of their logits without weights, and the number of duplicates.
        left_out: sets a matrix of the powers' shape where columns do not count.
    """

    powers: Tensor
    log_sum: Tensor
    top: Tensor
    counted: Tensor
    total: Tensor
    figures: Tensor
    left_out: LeftOut


@dataclass
class _Tiles:
    """Adds up the loss and the gradients of all tiles.

    Attributes:
        plan: what is computed.
        vectors: the vectors of all sources, each tensor once, by its id.
        logit_gradients: the gradients of columns that were given as logits, by the number of their source.
        repeated: for each source, the anchors that have duplicates; None without texts.
    """

    plan: _Plan
    vectors: dict[int, _Vectors] = field(default_factory=dict)
    logit_gradients: dict[int, Tensor] = field(default_factory=dict)
    repeated: list[Tensor | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        positive, negatives = self.plan.positive, self.plan.negatives
        pairs: list[Pairs | VectorColumns] = [positive, *(c for c in negatives if isinstance(c, VectorColumns))]
        for pair in pairs:
            for side in (pair.left, pair.right):
                # By identity: the anchors occur in most sources, and have one sum of gradients.
                if id(side) not in self.vectors:
                    self.vectors[id(side)] = _Vectors.of(side, pair.scoring.similarity == "cosine")
        self.repeated = [c.anchors_with_duplicates() if isinstance(c, VectorColumns) else None for c in negatives]
        self.dtype = self.vectors[id(positive.left)].form.dtype

    def gradients(self) -> tuple[Tensor | None, ...]:
        """The gradient of each of the plan's tensors; one that occurs twice has it at its first occurrence."""
        by_id: dict[int, Tensor | None] = {
            id(columns.weighted): self.logit_gradients.get(number)
            for number, columns in enumerate(self.plan.negatives)
            if isinstance(columns, _GivenLogits)
        }
        for tensor in self.plan.tensors:
            if id(tensor) in self.vectors:
                by_id[id(tensor)] = self.vectors.pop(id(tensor)).original_gradient()
        return tuple(by_id.pop(id(tensor), None) for tensor in self.plan.tensors)

    def add(self, rows: slice) -> Tensor:
        """Adds the tile of the anchors ``rows`` to the gradients.

        Returns:
            (5,): the sums of `TiledLoss` over these anchors; the loss is divided by all N.
        """
        plan, eps = self.plan, self.plan.label_smoothing
        n = len(plan.positive.left)
        similarity = self._similarity(plan.positive, rows)
        positive = similarity * (plan.positive.scale / plan.positive.scoring.temperature)
        blocks = [self._block(number, columns, rows) for number, columns in enumerate(plan.negatives)]
        share: float | Tensor = 1.0 / (n * len(plan.averaged))
        copies, in_denominator = plan.positive.copies, positive
        if copies > 1:
            # m columns of one logit: log(m exp(p)) = p + log m.
            in_denominator = positive + math.log(copies)
        if plan.positive.counted is not None:
            share = share * plan.positive.counted[rows].to(positive)
        loss = positive.new_zeros(())
        of_positive = torch.zeros_like(positive)
        scales = [torch.zeros_like(positive) for _ in blocks]
        smooth = [torch.zeros_like(positive) for _ in blocks]
        for numbers in plan.averaged:
            normaliser = torch.logsumexp(torch.stack([in_denominator, *(blocks[b].log_sum for b in numbers)]), dim=0)
            columns = copies + sum((blocks[b].counted for b in numbers), torch.zeros_like(positive))
            total = copies * positive + sum((blocks[b].total for b in numbers), torch.zeros_like(positive))
            losses = normaliser - (1.0 - eps) * positive - eps * total / columns
            loss += share * losses.sum() if isinstance(share, float) else (share * losses).sum()
            of_positive += share * ((in_denominator - normaliser).exp() - (1.0 - eps) - eps * copies / columns)
            for b in numbers:
                scales[b] += share * (blocks[b].top - normaliser).exp()
                smooth[b] += share * eps / columns
        if plan.gradients:
            self._add_positive(of_positive, rows)
            for number, block in enumerate(blocks):
                self._add_block(number, block, scales[number], smooth[number], rows)
        figures = torch.stack([block.figures for block in blocks]).sum(dim=0)
        counted = torch.stack([block.counted for block in blocks]).sum()
        return torch.stack([loss, similarity.sum(), figures[0], counted, figures[1]])

    def _similarity(self, pairs: Pairs, rows: slice) -> Tensor:
        first, second = (self.vectors[id(side)].form[rows] for side in (pairs.left, pairs.right))
        return (first * second).sum(dim=1)

    def _add_positive(self, gradient: Tensor, rows: slice) -> None:
        pairs = self.plan.positive
        factor = (gradient * (pairs.scale / pairs.scoring.temperature)).unsqueeze(1)
        for side, other in ((pairs.left, pairs.right), (pairs.right, pairs.left)):
            if side.requires_grad:
                self.vectors[id(side)].gradient_sum()[rows].addcmul_(factor, self.vectors[id(other)].form[rows])

    def _block(self, number: int, columns: VectorColumns | _GivenLogits, rows: slice) -> _Block:
        if isinstance(columns, _GivenLogits):
            return self._block_of_logits(columns, rows)
        anchors = self.vectors[id(columns.left)].form[rows]
        # The division is of the anchors, which are fewer numbers than the similarities.
        logits = (anchors / columns.scoring.temperature) @ self.vectors[id(columns.right)].form.T
        out, duplicates = self._left_out(number, columns, rows)
        out.set(logits, 0.0)
        sums = logits.sum(dim=1)
        counted = logits.new_full((len(anchors),), logits.shape[1])
        counted -= out.counts(logits)
        figures = torch.stack([sums.sum(), duplicates])
        total = sums + columns.log_weight * counted
        by_anchor, tau = columns.own, columns.similarity_per_logit
        if columns.by_nearness:  # h * sim = (h * tau) * logit; no gradient goes through the weights
            mine = None if by_anchor is None else logits[columns.own_columns(rows)] * (1.0 + by_anchor.hardness * tau)
            logits.mul_(1.0 + columns.hardness * tau)
            if mine is not None:
                logits[columns.own_columns(rows)] = mine
        if by_anchor is not None and by_anchor.log_weight:
            logits[columns.own_columns(rows)] += by_anchor.log_weight
        if self.plan.label_smoothing and (columns.by_nearness or (by_anchor is not None and by_anchor.log_weight)):
            out.set(logits, 0.0)
            total = logits.sum(dim=1) + columns.log_weight * counted
        return _exponentials(logits, out, counted, total, figures, columns.log_weight)

    def _block_of_logits(self, source: _GivenLogits, rows: slice) -> _Block:
        part = source.columns.rows(rows)
        out = LeftOut(everywhere=part.left_out)
        plain, logits = (t.detach().to(self.dtype, copy=True) for t in (part.logits, source.weighted[rows]))
        out.set(plain, 0.0)
        out.set(logits, 0.0)
        counted = (~part.left_out).sum(dim=1).to(self.dtype)
        duplicates = plain.new_zeros(()) if part.duplicates is None else part.duplicates.sum().to(self.dtype)
        return _exponentials(logits, out, counted, logits.sum(dim=1), torch.stack([plain.sum(), duplicates]), 0.0)

    def _left_out(self, number: int, columns: VectorColumns, rows: slice) -> tuple[LeftOut, Tensor]:
        """The columns that do not count in these rows, and the number of duplicates among them."""
        out = LeftOut()
        duplicates = columns.left.new_zeros((), dtype=self.dtype)
        if columns.own is not None and columns.own.excluded:
            out.own = columns.own_columns(rows)
        if columns.false is not None:
            out.everywhere = columns.false.rows(rows)
        repeated, texts = self.repeated[number], columns.texts
        if repeated is None or texts is None:
            return out, duplicates
        # ``repeated`` is ascending and on the CPU, so that nothing waits for a GPU.
        first, last = (int(edge) for edge in torch.searchsorted(repeated, torch.tensor([rows.start, rows.stop])))
        if first == last:
            return out, duplicates
        anchors = repeated[first:last].to(columns.left.device)
        same = same_text(texts[0][anchors], texts[1])
        if columns.own is not None and not columns.own.texts:
            same[columns.own_columns(anchors)] = False
        out.rows, out.same = anchors - rows.start, same
        return out, same.sum().to(self.dtype)

    def _add_block(self, number: int, block: _Block, scale: Tensor, smooth: Tensor, rows: slice) -> None:
        columns, powers = self.plan.negatives[number], block.powers
        if self.plan.label_smoothing or isinstance(columns, _GivenLogits):
            # Smoothing subtracts from every column, so the scale cannot wait for the products below.
            powers.mul_(scale.unsqueeze(1)).sub_(smooth.unsqueeze(1))
            block.left_out.set(powers, 0.0)
            scale = torch.ones_like(scale)
        if isinstance(columns, _GivenLogits):
            if columns.weighted.requires_grad:
                if number not in self.logit_gradients:
                    self.logit_gradients[number] = torch.zeros_like(columns.weighted)
                self.logit_gradients[number][rows] = powers
            return
        anchors, others = (self.vectors[id(side)] for side in (columns.left, columns.right))
        factor = (scale / columns.scoring.temperature).unsqueeze(1)
        if columns.left.requires_grad:
            anchors.gradient_sum()[rows].addcmul_(factor, powers @ others.form)
        if columns.right.requires_grad:
            others.gradient_sum().addmm_(powers.T, anchors.form[rows] * factor)


def _exponentials(
    logits: Tensor, out: LeftOut, counted: Tensor, total: Tensor, figures: Tensor, log_weight: float
) -> _Block:
    """Makes the block of a tile's ``logits``, in whose memory the exponentials are written."""
    out.set(logits, float("-inf"))
    if logits.shape[1] == 0:
        nothing = logits.new_full((len(logits),), float("-inf"))
        return _Block(logits, nothing, nothing, counted, total, figures, out)
    top = logits.amax(dim=1)
    finite = top.masked_fill(top == float("-inf"), 0.0)  # a row in which nothing counts
    powers = logits.sub_(finite.unsqueeze(1)).exp_()
    return _Block(powers, top + powers.sum(dim=1).log() + log_weight, top + log_weight, counted, total, figures, out)


@dataclass
class LeftOut:
    """Sets the columns of a tile that do not count, in place and without a mask of the tile's size where they are few.

    Attributes:
        own: row and column indices of the anchors' own columns.
        rows: numbers of the rows that have duplicates.
        same: for each of ``rows``, True where a column is a duplicate.
        everywhere: a mask of all rows, for columns that were given as logits, or that a teacher leaves out.
    """

    own: tuple[Tensor, Tensor] | None = None
    rows: Tensor | None = None
    same: Tensor | None = None
    everywhere: Tensor | None = None

    def set(self, matrix: Tensor, value: float | bool) -> None:
        """Writes ``value`` into (R, K) ``matrix`` where a column does not count."""
        if self.everywhere is not None:
            matrix.masked_fill_(self.everywhere, value)
        if self.own is not None:
            matrix[self.own] = value
        if self.rows is not None and self.same is not None:
            matrix[self.rows] = matrix[self.rows].masked_fill_(self.same, value)

    def counts(self, like: Tensor) -> Tensor:
        """(R,) columns of each row that do not count."""
        if self.everywhere is not None:
            every = torch.zeros_like(like, dtype=torch.bool)
            self.set(every, True)
            return every.sum(dim=1).to(like.dtype)
        counts = like.new_zeros(len(like))
        if self.own is not None:
            counts += self.own[1].shape[1]
        if self.rows is not None and self.same is not None:
            counts[self.rows] += self.same.sum(dim=1).to(like.dtype)
        return counts
