"""Columns of negatives: by their vectors, whose logits are computed per block of anchors, or as logits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from opencse.objective.similarity import (
    SimilarityKind,
    at_least_float32,
    pairwise_similarity,
    rowwise_similarity,
)


def hardness_log_weight(similarity: Tensor, strength: Tensor | float) -> Tensor:
    """What is added to the logits of negatives so that near ones weigh more (Lan et al. 2025, arXiv:2503.04812, eq. 5).

    With h the strength, negative k of anchor i has the weight ``exp(h * sim(a_i, c_k))`` in the denominator::

        Z_i = exp(s_i / tau) + sum_k exp(h * sg(sim_ik)) * exp(sim_ik / tau)        sg: without gradient

    The weights are not normalised, as in sentence-transformers, so a larger h also makes all negatives together
    weigh more. The weight itself has no gradient, so the step is as of a softmax at a higher temperature for the
    negatives, in which each logit still moves by ``1 / tau``.

    Args:
        similarity: (N, K) similarities, not divided by the temperature.
        strength: h, 0 for no weights; a number, or one of each column.

    Returns:
        (N, K), to be added to the logits.

    Example:
        >>> hardness_log_weight(torch.tensor([[0.5, -1.0]], requires_grad=True), 9.0)
        tensor([[ 4.5000, -9.0000]])
    """
    return at_least_float32(similarity.detach()) * strength


@dataclass(frozen=True)
class Scoring:
    """Turns similarities into logits, in the same way for every source of an objective.

    Attributes:
        similarity: cosine or dot.
        temperature: tau.
        mask_duplicates: whether equal texts are never each other's negatives.
    """

    similarity: SimilarityKind = "cosine"
    temperature: float = 0.05
    mask_duplicates: bool = True

    def logits(self, anchors: Tensor, columns: Tensor) -> Tensor:
        """(N, d), (K, d) -> (N, K): sim(a_i, c_k) / tau."""
        return pairwise_similarity(anchors, columns, self.similarity) / self.temperature

    def own_logits(self, anchors: Tensor, others: Tensor) -> Tensor:
        """(N, d), (N, d) -> (N,): sim(a_i, o_i) / tau."""
        return rowwise_similarity(anchors, others, self.similarity) / self.temperature


@dataclass(frozen=True)
class Pairs:
    """The positives, by the vectors of their similarities ``sim(left_i, right_i)``.

    Attributes:
        left: (N, d).
        right: (N, d).
        scoring: turns similarities into logits.
        scale: multiplies the logits.
        copies: how often a positive is in its denominator.
        counted: (N,) bool, False where an anchor has no loss of its own, which counts as 0 in the mean; None: all have.
    """

    left: Tensor
    right: Tensor
    scoring: Scoring
    scale: float = 1.0
    copies: int = 1
    counted: Tensor | None = None

    def similarity(self) -> Tensor:
        """(N,)."""
        return rowwise_similarity(self.left, self.right, self.scoring.similarity)


@dataclass(frozen=True)
class Own:
    """Says how columns that belong to the anchors' own examples are treated: column k is one of example ``k % N``.

    Attributes:
        excluded: whether an anchor's own column is left out.
        log_weight: added to the logits of an anchor's own columns, in addition to the weight of all columns.
        texts: whether an anchor's own column is left out too if it is the same text; else it stays, on purpose.
        hardness: takes the place of the columns' ``hardness`` in an anchor's own columns.
    """

    excluded: bool = False
    log_weight: float = 0.0
    texts: bool = False
    hardness: float = 0.0


@dataclass(frozen=True)
class FalseNegatives:
    """Columns that a teacher takes for too near to an anchor to be its negatives: ``cos(left_i, right_k) > limit_i``.

    Attributes:
        left: (N, t) the teacher's vectors of the anchors.
        right: (K, t) the teacher's vectors of the columns.
        limits: (N,).
    """

    left: Tensor
    right: Tensor
    limits: Tensor

    def rows(self, rows: slice) -> Tensor:
        """(R, K) bool: the false negatives of some anchors."""
        return pairwise_similarity(self.left[rows], self.right, "cosine") > self.limits[rows].unsqueeze(1)


@dataclass(frozen=True)
class LogitColumns:
    """One source's columns of the denominator as logits.

    Attributes:
        logits: (N, K) similarities divided by the temperature.
        log_weight: added to the logits: a number, or a tensor without gradient that broadcasts to (N, K).
        excluded: (N, K) bool, True where a column is not a negative of an anchor (its own positive); None: nowhere.
        duplicates: (N, K) bool, True where a column is left out because it is the text of the anchor or of its
            positive; None: nowhere.

    Example:
        >>> LogitColumns(torch.zeros(2, 1), log_weight=0.5).weighted()
        tensor([[0.5000],
                [0.5000]])
    """

    logits: Tensor
    log_weight: Tensor | float = 0.0
    excluded: Tensor | None = None
    duplicates: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(N, K)."""
        return self.logits.shape[0], self.logits.shape[1]

    @property
    def sides(self) -> tuple[Tensor, ...]:
        """The tensors that the logits are made of."""
        return (self.logits,)

    def dense(self) -> LogitColumns:
        """Returns these columns, which are logits already."""
        return self

    def logits_of(self, rows: slice) -> Tensor:
        """(R, K): a copy of the logits of some anchors."""
        return at_least_float32(self.logits[rows]).clone()

    def repeated(self) -> None:
        """Which anchors have duplicates is not known."""

    def rows(self, rows: slice, logits: Tensor, repeated: Tensor | None = None) -> LogitColumns:
        """The columns of some anchors, by their ``logits``."""
        del repeated
        n = len(self.logits)

        def some(values: Tensor) -> Tensor:
            return values[rows] if values.ndim == 2 and len(values) == n else values

        return LogitColumns(
            logits,
            some(self.log_weight) if isinstance(self.log_weight, Tensor) else self.log_weight,
            None if self.excluded is None else some(self.excluded),
            None if self.duplicates is None else some(self.duplicates),
        )

    def add_gradient(self, gradients: Mapping[int, Tensor], rows: slice, gradient: Tensor) -> None:
        """Adds the gradient of some anchors' logits to those of `sides`, which are given by ``id``."""
        if id(self.logits) in gradients:
            gradients[id(self.logits)][rows] += gradient

    @property
    def left_out(self) -> Tensor:
        """(N, K) bool, True where a column does not count: excluded, or a duplicate."""
        if self.excluded is not None and self.duplicates is not None:
            return self.excluded | self.duplicates
        mask = self.excluded if self.duplicates is None else self.duplicates
        return torch.zeros_like(self.logits, dtype=torch.bool) if mask is None else mask.expand(self.shape)

    def weighted(self) -> Tensor:
        """(N, K) logits with weights, minus infinity where left out; float32 at least."""
        logits = at_least_float32(self.logits)
        if isinstance(self.log_weight, Tensor) or self.log_weight:
            logits = logits + self.log_weight
        return logits.masked_fill(self.left_out, float("-inf"))


@dataclass(frozen=True)
class VectorColumns:
    """One source's columns of the denominator by their vectors: ``sim(left_i, right_k) / tau``.

    All logits at once are made by `dense` only; `opencse.objective.contrast` makes those of some anchors after another.

    Attributes:
        left: (N, d), the anchors' side of the similarity.
        right: (K, d), the columns.
        scoring: turns similarities into logits.
        log_weight: added to all logits.
        hardness: added to the logits, times the similarity without its gradient: nearer columns weigh more.
        own: how the anchors' own columns are treated; None if no column belongs to an anchor.
        anchor_keys: (N, 2) hashes of the anchor's and the positive's text.
        column_keys: (K, C) hashes of the texts of each column, any of which makes it a duplicate; None if a column has
            no text.
        false: columns to leave out by a teacher's judgement, an anchor's own among them; None for none.
        stretch: scalar that the left vectors were multiplied by, without gradient; None for 1. Nearness is without it.
    """

    left: Tensor
    right: Tensor
    scoring: Scoring
    log_weight: float = 0.0
    hardness: float = 0.0
    own: Own | None = None
    anchor_keys: Tensor | None = None
    column_keys: Tensor | None = None
    false: FalseNegatives | None = None
    stretch: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(N, K)."""
        return len(self.left), len(self.right)

    @property
    def similarity_per_logit(self) -> Tensor | float:
        """What a logit is multiplied by to be the similarity that nearness is measured by."""
        return self.scoring.temperature if self.stretch is None else self.scoring.temperature / self.stretch

    @property
    def by_nearness(self) -> bool:
        """Whether columns are weighted by their nearness."""
        return self.hardness != 0.0 or (self.own is not None and self.own.hardness != 0.0)

    @property
    def texts(self) -> tuple[Tensor, Tensor] | None:
        """The keys of anchors and columns, if equal texts are to be left out; else None."""
        if not self.scoring.mask_duplicates or self.anchor_keys is None or self.column_keys is None:
            return None
        return self.anchor_keys, self.column_keys

    @property
    def sides(self) -> tuple[Tensor, ...]:
        """The tensors that the logits are made of."""
        return self.left, self.right

    def dense(self) -> LogitColumns:
        """Makes all logits at once."""
        return self.rows(slice(0, len(self.left)), self.scoring.logits(self.left, self.right))

    def logits_of(self, rows: slice) -> Tensor:
        """(R, K): the logits of some anchors, which are dot products."""
        return (self.left[rows] / self.scoring.temperature) @ self.right.T  # fewer numbers are divided

    def repeated(self) -> Tensor | None:
        """The anchors that have a column of their own text; None if texts do not count.

        They are found by sorting, not by N K comparisons.
        """
        if self.texts is None:
            return None
        anchors, texts = (keys.contiguous() for keys in self.texts)
        ascending = texts.flatten().sort().values
        equal = torch.searchsorted(ascending, anchors, right=True) - torch.searchsorted(ascending, anchors)
        matches = equal.sum(dim=1)
        if self.own is not None and not self.own.texts:
            own_texts = texts.reshape(-1, len(anchors), texts.shape[1])  # (K / N, N, C)
            matches = matches - (own_texts.unsqueeze(3) == anchors[:, None, :]).sum(dim=(0, 2, 3))
        return matches > 0

    def rows(self, rows: slice, logits: Tensor, repeated: Tensor | None = None) -> LogitColumns:
        """The columns of some anchors, by their ``logits``; ``repeated`` is (R,), see `repeated`."""
        n, k = self.shape
        duplicates = None
        if self.texts is not None and repeated is None:
            duplicates = same_text(self.texts[0][rows], self.texts[1])
        elif self.texts is not None and repeated is not None and repeated.any():
            duplicates = torch.zeros_like(logits, dtype=torch.bool)
            duplicates[repeated] = same_text(self.texts[0][rows][repeated], self.texts[1])
        false = None if self.false is None else self.false.rows(rows)
        if self.own is None:
            nearness = hardness_log_weight(logits * self.similarity_per_logit, self.hardness) if self.hardness else 0.0
            return LogitColumns(logits, self.log_weight + nearness, false, duplicates)
        own = torch.arange(rows.start, rows.stop, device=logits.device).unsqueeze(1)
        own = own + torch.arange(0, k, n, device=logits.device)
        is_own = torch.zeros_like(logits, dtype=torch.bool).scatter_(1, own, True)
        if duplicates is not None and not self.own.texts:
            duplicates = duplicates & ~is_own
        weight: Tensor | float = self.log_weight
        if self.own.log_weight:
            weight = self.log_weight + self.own.log_weight * is_own.to(logits.dtype)
        if self.by_nearness:
            strength = self.hardness + (self.own.hardness - self.hardness) * is_own.to(logits.dtype)
            weight = weight + hardness_log_weight(logits * self.similarity_per_logit, strength)
        excluded = is_own if self.own.excluded else None
        if false is not None:
            excluded = false if excluded is None else excluded | false
        return LogitColumns(logits, weight, excluded, duplicates)

    def add_gradient(self, gradients: Mapping[int, Tensor], rows: slice, gradient: Tensor) -> None:
        """Adds the gradient of some anchors' logits, which are dot products, to those of `sides`, given by ``id``."""
        factor = 1 / self.scoring.temperature
        if id(self.left) in gradients:
            gradients[id(self.left)][rows].addmm_(gradient, self.right, alpha=factor)
        if id(self.right) in gradients:
            gradients[id(self.right)].addmm_(gradient.T, self.left[rows], alpha=factor)


def same_text(anchors: Tensor, columns: Tensor) -> Tensor:
    """(N, A), (K, C) keys -> (N, K) bool: whether any text of column k is one of anchor i's."""
    same = torch.zeros(len(anchors), len(columns), dtype=torch.bool, device=anchors.device)
    for column in columns.unbind(1):
        for anchor in anchors.unbind(1):
            same |= column == anchor.unsqueeze(1)
    return same


AnyColumns = LogitColumns | VectorColumns
"""A source gives few columns as logits, or many by their vectors."""
