"""The contrastive loss: of plain tensors, of logits, and of a batch, nested or at a learned temperature.

Of a batch all similarities are made at once if they are few, else tile by tile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from opencse.errors import UserError
from opencse.objective.columns import AnyColumns, LogitColumns, Pairs, Scoring, VectorColumns
from opencse.objective.similarity import (
    SimilarityKind,
    at_least_float32,
    compared,
    pairwise_similarity,
    rowwise_similarity,
)
from opencse.settings import Settings


def info_nce(
    anchor: Tensor,
    positive: Tensor,
    negatives: Tensor | None = None,
    *,
    temperature: float = 0.05,
    similarity: SimilarityKind = "cosine",
    label_smoothing: float = 0.0,
) -> Tensor:
    """InfoNCE with in-batch negatives, the loss of SimCSE (Gao et al. 2021, arXiv:2104.08821, eq. 1 and 4).

    With anchors a_i, positives b_i, further negatives c_k, and ``s(x, y) = sim(x, y) / temperature``::

        Z_i  = sum_j exp(s(a_i, b_j)) + sum_k exp(s(a_i, c_k))
        loss = mean over i of -log(exp(s(a_i, b_i)) / Z_i)

    In eq. 5, for pairs with hard negatives, c_k are the hard negatives of all examples. An objective composes the
    denominator of any sources, with weights and without duplicates; `info_nce_from_logits` is the loss it takes.

    Args:
        anchor: (N, d).
        positive: (N, d); row i belongs to anchor i.
        negatives: (K, d) that all anchors share, if any.
        temperature: tau, above 0; .05 in the paper.
        similarity: ``cosine`` (the paper) or ``dot``.
        label_smoothing: eps in [0, 1): see `info_nce_from_logits`.

    Returns:
        Scalar, the mean over the anchors.

    Example:
        >>> anchor = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> info_nce(anchor, anchor, temperature=0.5)
        tensor(0.1269)
        >>> info_nce(anchor, anchor.flip(0), temperature=0.5)  # each positive is further than the other one
        tensor(2.1269)
        >>> info_nce(anchor, anchor, negatives=torch.tensor([[1.0, 1.0]]), temperature=0.5)
        tensor(0.5259)
    """
    positives = rowwise_similarity(anchor, positive, similarity) / temperature  # (N,)
    others = pairwise_similarity(anchor, positive, similarity) / temperature  # (N, N)
    columns = [others.masked_fill(torch.eye(len(anchor), dtype=torch.bool, device=anchor.device), -torch.inf)]
    if negatives is not None:
        columns.append(pairwise_similarity(anchor, negatives, similarity) / temperature)  # (N, K)
    return info_nce_from_logits(positives, *columns, label_smoothing=label_smoothing).mean()


def info_nce_from_logits(positive: Tensor, *negatives: Tensor, label_smoothing: float = 0.0, copies: int = 1) -> Tensor:
    """InfoNCE of each anchor, of logits (SimCSE, eq. 1, 4 and 5).

    With p_i the positive's logit and n_ik the logit of negative k::

        Z_i    = m exp(p_i) + sum_k exp(n_ik)
        loss_i = -(1 - eps) log(exp(p_i) / Z_i) - eps / (K_i + m) * sum over all K_i + m columns c of log(c / Z_i)

    A negative of weight w has log(w) added to its logit. One of logit minus infinity is left out: it counts neither in
    Z_i nor in K_i. ``eps`` is label smoothing (Park's thesis, section on label smoothing). The positive is one column
    (m = 1), but one for each direction in a softmax over several (Li et al. 2023, arXiv:2308.03281, eq. 2).

    Args:
        positive: (N,) logits of the positives, already divided by the temperature.
        negatives: (N, K) logits of each source of negatives.
        label_smoothing: eps in [0, 1).
        copies: m, how often the positive is in its denominator.

    Returns:
        (N,) losses.

    Example:
        >>> info_nce_from_logits(torch.zeros(2), torch.tensor([[0.0], [-torch.inf]]))
        tensor([0.6931, 0.0000])
    """
    # In bf16 logits near 20 (a cosine of 1 over .05) differ in steps of .125.
    positives = at_least_float32(positive).unsqueeze(1).expand(-1, copies)
    logits = torch.cat([positives, *(at_least_float32(n) for n in negatives)], dim=1)
    log_normaliser = torch.logsumexp(logits, dim=1)
    losses = log_normaliser - logits[:, 0]
    if label_smoothing == 0.0:
        return losses
    # Columns that are left out take no share of the smoothing.
    counted = torch.isfinite(logits)
    uniform = log_normaliser - logits.masked_fill(~counted, 0.0).sum(dim=1) / counted.sum(dim=1)
    return (1.0 - label_smoothing) * losses + label_smoothing * uniform


def binary_from_logits(positive: Tensor, *negatives: Tensor) -> Tensor:
    """The binary cross-entropy of every probability of an anchor's softmax, as the authors of DCLR train it.

    With q the softmax over the logits of the positive and of all K_i negatives that count::

        loss_i = -( log q_i+ + sum_k log(1 - q_ik) ) / (K_i + 1)

    `info_nce_from_logits` is ``-log q_i+`` alone. The paper (Zhou et al. 2022, arXiv:2205.00656) has that loss with
    weights; the binary one is in its code. A logit of minus infinity is left out.

    Args:
        positive: (N,) logits of the positives, already divided by the temperature.
        negatives: (N, K) logits of each source of negatives.

    Returns:
        (N,) losses.

    Example:
        >>> binary_from_logits(torch.zeros(2), torch.tensor([[0.0], [-torch.inf]]))  # q = 1/2, 1/2; q = 1
        tensor([0.6931, -0.0000])
    """
    logits = torch.cat([at_least_float32(positive).unsqueeze(1), *(at_least_float32(n) for n in negatives)], dim=1)
    log_probabilities = torch.log_softmax(logits, dim=1)
    below_one = log_probabilities[:, 1:].clamp(max=-torch.finfo(logits.dtype).tiny)  # log(1 - q) of q = 1 is infinite
    rejected = (-torch.expm1(below_one)).log()  # 0 where q = 0
    return -(log_probabilities[:, 0] + rejected.sum(dim=1)) / torch.isfinite(logits).sum(dim=1)


TILE_BYTES = 16 * 2**20
Directions = Literal["rows", "columns", "both"]
Partition = Literal["separate", "joint"]
ContrastLoss = Literal["softmax", "binary"]


@dataclass(frozen=True)
class Contrast:
    """The contrastive loss of a batch, and its figures for the log.

    Attributes:
        loss: scalar, the mean over the anchors.
        positive_similarity: scalar, the mean over the anchors.
        negative_similarity: scalar, the mean over all columns that count, weights aside; 0 if none does.
        duplicates: scalar, the columns left out because of equal texts, over all anchors.
    """

    loss: Tensor
    positive_similarity: Tensor
    negative_similarity: Tensor
    duplicates: Tensor


def contrast(
    positive: Pairs,
    negatives: Sequence[AnyColumns],
    averaged: Sequence[Sequence[int]],
    *,
    loss: ContrastLoss = "softmax",
    label_smoothing: float = 0.0,
    tile_bytes: int = TILE_BYTES,
) -> Contrast:
    """The mean over the anchors of `losses.info_nce_from_logits`, or of `losses.binary_from_logits`.

    If the similarities take more than ``tile_bytes``, they are made tile by tile: the same loss and gradients up to
    rounding, in memory that does not grow with their number. The binary loss is never made in tiles.

    Args:
        positive: the positives' similarities.
        negatives: the columns of each source, at least one.
        averaged: lists of sources, as numbers into ``negatives``; the loss is the mean of the losses with each list.
        loss: the loss of each anchor; the binary one has no label smoothing.
        label_smoothing: eps in [0, 1).
        tile_bytes: most bytes of similarities that are made at once.
    """
    itemsize = at_least_float32(positive.left[:0]).element_size()
    n, tau, widths = len(positive.left), positive.scoring.temperature, [columns.shape[1] for columns in negatives]
    if loss == "binary" or n * sum(widths) * itemsize <= tile_bytes:
        return _dense(positive, [columns.dense() for columns in negatives], averaged, loss, label_smoothing)
    size = max(1, tile_bytes // (itemsize * max(widths)))
    tiles = [slice(start, min(n, start + size)) for start in range(0, n, size)]

    @cache  # by identity: a tensor that several sources read is normalised once
    def comparable(vectors: Tensor, kind: SimilarityKind) -> Tensor:
        return compared(vectors, kind)

    sources = [_as_dot_products(columns, comparable) for columns in negatives]
    similarity = positive.similarity()
    sides = {id(side): side for source in sources for side in source.sides}
    in_place = partial(_softmax_in_place, positive, averaged=averaged, eps=label_smoothing)
    total, logits, counted, duplicates = _Tiles.apply(  # type: ignore[no-untyped-call]
        in_place, sources, tiles, torch.is_grad_enabled(), similarity, *sides.values()
    )
    return Contrast(total / n, similarity.detach().mean(), logits * tau / counted.clamp(min=1), duplicates)


def _dense(
    positive: Pairs,
    negatives: Sequence[LogitColumns],
    averaged: Sequence[Sequence[int]],
    loss: ContrastLoss,
    label_smoothing: float,
) -> Contrast:
    similarity = positive.similarity()
    logits = positive.scale * similarity / positive.scoring.temperature

    def of_each(columns: Sequence[Tensor]) -> Tensor:
        if loss == "binary":
            return binary_from_logits(logits, *columns)
        return info_nce_from_logits(logits, *columns, label_smoothing=label_smoothing, copies=positive.copies)

    losses = [of_each([negatives[n].weighted() for n in some]) for some in averaged]
    of_anchors = sum(losses[1:], losses[0]) / len(losses)  # (N,)
    if positive.counted is not None:
        of_anchors = of_anchors.masked_fill(~positive.counted, 0.0)
    plain = torch.cat([c.logits.detach().float() for c in negatives], dim=1)
    counted = ~torch.cat([c.left_out for c in negatives], dim=1)
    duplicates = [c.duplicates.sum() for c in negatives if c.duplicates is not None]
    return Contrast(
        of_anchors.mean(),
        similarity.detach().mean(),
        plain.masked_fill(~counted, 0.0).sum() * positive.scoring.temperature / counted.sum().clamp(min=1),
        torch.stack(duplicates).sum().float() if duplicates else torch.zeros((), device=logits.device),
    )


def _softmax_in_place(
    pairs: Pairs,
    similarity: Tensor,
    columns: Sequence[LogitColumns],
    rows: slice,
    *,
    averaged: Sequence[Sequence[int]],
    eps: float,
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """`info_nce_from_logits` of some anchors, and its gradients, in the memory of the logits, which saves time.

    Returns:
        The sum of the losses; (R,) its gradient at the positives' similarities; and that at the logits of each source.
    """
    factor = pairs.scale / pairs.scoring.temperature
    positive = similarity * factor
    inside = positive + math.log(pairs.copies)  # m columns of one logit: log(m exp(p)) = p + log m
    share = torch.full_like(positive, 1 / len(averaged))
    if pairs.counted is not None:
        share = share * pairs.counted[rows]
    tops, log_sums, totals, counts, powers = [], [], [], [], []
    for one in columns:
        out, logits = one.left_out, one.logits
        if isinstance(one.log_weight, Tensor) or one.log_weight:
            logits += one.log_weight
        counts.append((~out).sum(dim=1) if eps else torch.zeros_like(positive))
        totals.append(logits.masked_fill(out, 0.0).sum(dim=1) if eps else torch.zeros_like(positive))
        logits.masked_fill_(out, -torch.inf)
        top = logits.amax(dim=1) if logits.shape[1] else torch.full_like(positive, -torch.inf)
        tops.append(top.masked_fill(top == -torch.inf, 0.0))  # a row in which nothing counts
        powers.append(logits.sub_(tops[-1].unsqueeze(1)).exp_())
        log_sums.append(tops[-1] + logits.sum(dim=1).log())
    loss, of_positive = torch.zeros_like(positive), torch.zeros_like(positive)
    scales, smooth = ([torch.zeros_like(positive) for _ in columns] for _ in range(2))
    for numbers in averaged:
        normaliser = torch.logsumexp(torch.stack([inside, *(log_sums[n] for n in numbers)]), dim=0)
        count = pairs.copies + sum((counts[n] for n in numbers), torch.zeros_like(positive))
        total = pairs.copies * positive + sum((totals[n] for n in numbers), torch.zeros_like(positive))
        loss += share * (normaliser - (1 - eps) * positive - eps * total / count)
        of_positive += share * ((inside - normaliser).exp() - (1 - eps) - eps * pairs.copies / count)
        for n in numbers:
            scales[n] += share * (tops[n] - normaliser).exp()
            smooth[n] += share * eps / count
    for one, power, scale, less in zip(columns, powers, scales, smooth, strict=True):
        power.mul_(scale.unsqueeze(1))
        if eps:
            power.sub_(less.unsqueeze(1)).masked_fill_(one.left_out, 0.0)
    return loss.sum(), factor * of_positive, powers


def _as_dot_products(columns: AnyColumns, comparable: Callable[[Tensor, SimilarityKind], Tensor]) -> AnyColumns:
    """The same columns, whose logits are dot products of vectors that are normalised where that is needed."""
    if isinstance(columns, LogitColumns):
        return columns
    left, right = (comparable(side, columns.scoring.similarity) for side in columns.sides)
    return replace(columns, left=left, right=right, scoring=replace(columns.scoring, similarity="dot"))


class _Tiles(torch.autograd.Function):
    """The sum of the anchors' losses, tile by tile: some anchors by all columns, so that each has its denominator.

    A tile's gradient at its logits is taken at once, and that of the vectors is added up, so that no more than a tile
    of similarities is in memory. It has first derivatives only.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch's context
        in_place: Callable[..., tuple[Tensor, Tensor, list[Tensor]]],
        sources: Sequence[AnyColumns],
        tiles: Sequence[slice],
        differentiate: bool,
        similarity: Tensor,
        *sides: Tensor,
    ) -> tuple[Tensor, ...]:
        sums = torch.zeros(4, dtype=similarity.dtype, device=similarity.device)
        of_similarity = torch.zeros_like(similarity)
        trained = [side for side in sides if side.requires_grad and differentiate]
        gradients = {id(side): torch.zeros_like(side) for side in trained}
        # Autocast would make the products of similarities in bf16.
        with torch.autocast(similarity.device.type, enabled=False):
            repeated = [source.repeated() for source in sources]
            for rows in tiles:
                columns = [
                    source.rows(rows, source.logits_of(rows), None if some is None else some[rows])
                    for source, some in zip(sources, repeated, strict=True)
                ]
                for one in columns:
                    out = one.left_out
                    sums[1] += one.logits.masked_fill_(out, 0.0).sum()
                    sums[2] += out.numel() - out.count_nonzero()
                    sums[3] += 0 if one.duplicates is None else one.duplicates.count_nonzero()
                loss, of_similarity[rows], of_logits = in_place(similarity[rows], columns, rows)
                sums[0] += loss
                for source, gradient in zip(sources, of_logits, strict=True):
                    source.add_gradient(gradients, rows, gradient)
        ctx.gradients = of_similarity, *(gradients.get(id(side)) for side in sides)
        total, *figures = sums.unbind()
        ctx.mark_non_differentiable(*figures)
        return total, *figures

    @staticmethod
    def backward(ctx: Any, loss: Tensor, *figures: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        del figures
        if torch.is_grad_enabled():
            raise RuntimeError("a contrast in tiles has first derivatives only; raise tile_bytes")
        # Not in place: a second backward pass would read the scaled gradients.
        return (
            *4 * (None,),
            *(None if gradient is None else gradient * loss.to(gradient) for gradient in ctx.gradients),
        )


class MatryoshkaSettings(Settings):
    """Settings of `Matryoshka`.

    Attributes:
        dimensions: lengths of the nested vectors, in any order; the full vector is always included.
        weights: the weight of each of ``dimensions``; the full vector has weight 1. Unset: 1 each.
    """

    dimensions: tuple[int, ...] = Field(min_length=1)
    weights: tuple[float, ...] | None = None

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if min(self.dimensions) < 1 or len(set(self.dimensions)) < len(self.dimensions):
            raise ValueError("dimensions are whole numbers from 1, each once")
        if self.weights is not None:
            if len(self.weights) != len(self.dimensions):
                raise ValueError(f"{len(self.weights)} weights for {len(self.dimensions)} dimensions")
            if not all(0 < weight < float("inf") for weight in self.weights):
                raise ValueError("weights are above 0 and finite")
        return self


class Matryoshka:
    """Contrasts the full vectors and their first dimensions (Kusupati et al. 2022, arXiv:2205.13147, eq. 1).

    With L_m the contrastive loss of all vectors truncated to their first m dimensions (and normalised, where the
    similarity is the cosine), d their length, and c_d = 1::

        loss = sum_{m in dimensions + d} c_m L_m / sum_m c_m

    The paper sums without dividing: here the loss, and with it the weight of other terms and of clipping, stays that of
    one contrast. The columns of every negative source are truncated: queues, layers, generated ones. Terms see full
    vectors.

    Args:
        settings: the lengths m, without d, and c_m of each.

    Example:
        >>> from opencse.objective.columns import Own, Scoring
        >>> vectors, scoring = torch.eye(4), Scoring(temperature=1.0, mask_duplicates=False)
        >>> positives = Pairs(vectors, vectors, scoring)
        >>> in_batch = VectorColumns(vectors, vectors, scoring, own=Own(excluded=True))
        >>> nested = Matryoshka(MatryoshkaSettings(dimensions=(2,)))  # vectors 3 and 4 are zero in two dimensions
        >>> nested.contrast(positives, [in_batch], [[0]], label_smoothing=0.0, tile_bytes=2**20).loss
        tensor(0.9043)
    """

    called = "objective.matryoshka"
    cannot = (
        ("no_contrast", "truncates the vectors of negatives"),
        ("learned_temperature", "normalises truncated vectors again, at the temperature of the full ones"),
        ("training_head", "is about the first dimensions of the encoder's vectors"),
    )

    def __init__(self, settings: MatryoshkaSettings) -> None:
        self.dimensions = settings.dimensions
        self.weights = settings.weights or (1.0,) * len(settings.dimensions)

    def check(self, objective: Any) -> None:  # noqa: ANN401 - an `Objective`, which imports this
        """Refuses negatives whose vectors cannot be truncated.

        Raises:
            UserError: in one line.
        """
        for source in objective.negatives:
            if source.gives_logits:
                raise UserError(
                    f"objective.matryoshka: {source.name} gives similarities, not vectors that can be truncated; leave "
                    "one of them out"
                )

    def check_dimension(self, dimension: int) -> None:
        """Refuses lengths that vectors of ``dimension`` dimensions do not have.

        Raises:
            UserError: naming them.
        """
        if max(self.dimensions) > dimension:
            raise UserError(
                f"objective.matryoshka.dimensions: {max(self.dimensions)} is above the {dimension} dimensions of this "
                "encoder; give smaller ones"
            )

    def contrast(
        self,
        positive: Pairs,
        negatives: Sequence[AnyColumns],
        averaged: Sequence[Sequence[int]],
        *,
        loss: ContrastLoss = "softmax",
        label_smoothing: float,
        tile_bytes: int,
    ) -> Contrast:
        """The weighted mean of the losses; the figures are of the full vectors. See `contrast`."""

        def truncated(length: int | None) -> Contrast:
            return contrast(
                _pairs(positive, length),
                [_columns(columns, length) for columns in negatives],
                averaged,
                loss=loss,
                label_smoothing=label_smoothing,
                tile_bytes=tile_bytes,
            )

        full = truncated(None)
        weights = dict(zip(self.dimensions, self.weights, strict=True))
        weights.pop(positive.left.shape[1], None)  # is the full vector
        nested = [weight * truncated(length).loss for length, weight in weights.items()]
        return replace(full, loss=torch.stack([full.loss, *nested]).sum() / (1 + sum(weights.values())))


def _pairs(pairs: Pairs, length: int | None) -> Pairs:
    return replace(pairs, left=pairs.left[:, :length], right=pairs.right[:, :length])


def _columns(columns: AnyColumns, length: int | None) -> AnyColumns:
    if length is None or not isinstance(columns, VectorColumns):  # `check` has refused logits
        return columns
    return replace(columns, left=columns.left[:, :length], right=columns.right[:, :length])


class LearnedTemperature(nn.Module):
    """Multiplies every logit of a contrast by ``exp(s)``, where s is trained (CLIP; CT-improved).

    With the similarity sim of the objective::

        logit = sim(a, b) * exp(s),     s = log(1 / temperature) at the start

    The factor goes into the left vectors, so that batches that are contrasted tile by tile have its gradient too. The
    log of a run has ``temperature``, which is exp(-s). Weight decay leaves s alone.

    Example:
        >>> learned = LearnedTemperature(0.05, "cosine")
        >>> round(learned.scale.item(), 4)
        20.0

    Args:
        temperature: at the start.
        similarity: the similarity of the objective.
        mask_duplicates: whether equal texts are left out, as in the objective.
    """

    def __init__(self, temperature: float, similarity: SimilarityKind, *, mask_duplicates: bool = True) -> None:
        super().__init__()
        # The logarithm is trained, so that the scale stays above 0.
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / temperature)))
        self.similarity = similarity
        self.scoring = Scoring(similarity, 1.0, mask_duplicates)

    @property
    def scale(self) -> Tensor:
        """exp(s), a scalar with gradient."""
        return self.log_scale.exp()

    def scaled(self, positive: Pairs, columns: Sequence[AnyColumns]) -> tuple[Pairs, list[AnyColumns]]:
        """The positives and the columns, made with temperature 1, with their logits multiplied by ``exp(s)``."""
        scale = self.scale
        # Vectors are normalised here, before the scale goes into the left ones.
        scoring: Scoring = replace(self.scoring, similarity="dot")

        @cache  # by identity: a tensor that several sources read stays one
        def right(vectors: Tensor) -> Tensor:
            return compared(vectors, self.similarity)

        @cache
        def left(vectors: Tensor) -> Tensor:
            return compared(vectors, self.similarity) * scale

        scaled: list[AnyColumns] = []
        for source in columns:
            if isinstance(source, VectorColumns):
                scaled.append(
                    replace(
                        source,
                        left=left(source.left),
                        right=right(source.right),
                        scoring=scoring,
                        stretch=scale.detach(),  # near columns have the same weights at any scale
                    )
                )
            else:
                scaled.append(replace(source, logits=at_least_float32(source.logits) * scale))
        return replace(positive, left=left(positive.left), right=right(positive.right), scoring=scoring), scaled
