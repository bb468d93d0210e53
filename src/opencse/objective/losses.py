"""The losses: pure functions of tensors. They know no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

Similarity = Literal["cosine", "dot"]


@dataclass(frozen=True)
class Columns:
    """What one negative source puts into the denominator.

    Attributes:
        logits: (N, K) similarities divided by the temperature.
        log_weight: added to the logits: a number, or a tensor that broadcasts to (N, K).
        excluded: (N, K) bool, True where a column is no negative of an anchor (its own positive); None: nowhere.
        duplicates: (N, K) bool, True where a column is left out because it is the anchor's or the positive's
            own text; None: nowhere.
    """

    logits: Tensor
    log_weight: Tensor | float = 0.0
    excluded: Tensor | None = None
    duplicates: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(N, K)."""
        return self.logits.shape[0], self.logits.shape[1]

    def dense(self) -> Columns:
        """These."""
        return self

    def rows(self, rows: slice) -> Columns:
        """Those of some anchors."""
        n = len(self.logits)

        def some(of: Tensor) -> Tensor:
            return of[rows] if of.ndim == 2 and len(of) == n else of

        return Columns(
            self.logits[rows],
            some(self.log_weight) if isinstance(self.log_weight, Tensor) else self.log_weight,
            None if self.excluded is None else some(self.excluded),
            None if self.duplicates is None else some(self.duplicates),
        )

    @property
    def left_out(self) -> Tensor:
        """(N, K) bool, True where a column does not count: excluded, or a duplicate."""
        out = torch.zeros_like(self.logits, dtype=torch.bool)
        for mask in (self.excluded, self.duplicates):
            if mask is not None:
                out = out | mask
        return out

    def weighted(self) -> Tensor:
        """(N, K) logits with weights, minus infinity where left out; float32 at least."""
        return (at_least_float32(self.logits) + self.log_weight).masked_fill(self.left_out, float("-inf"))


def at_least_float32(values: Tensor) -> Tensor:
    """Half precision raised to float32; float32 and float64 as they are."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values


def pairwise_similarity(a: Tensor, b: Tensor, kind: Similarity) -> Tensor:
    """(N, d), (M, d) -> (N, M): cosine or dot product of every a with every b, in float32 at least, autocast or not."""
    a, b = at_least_float32(a), at_least_float32(b)
    if kind == "cosine":
        a, b = functional.normalize(a, dim=-1), functional.normalize(b, dim=-1)
    with torch.autocast(a.device.type, enabled=False):
        return a @ b.T


def rowwise_similarity(a: Tensor, b: Tensor, kind: Similarity) -> Tensor:
    """(N, d), (N, d) -> (N,): cosine or dot product of each a with its own b, in float32 at least."""
    a, b = at_least_float32(a), at_least_float32(b)
    if kind == "cosine":
        a, b = functional.normalize(a, dim=-1), functional.normalize(b, dim=-1)
    return (a * b).sum(dim=-1)


def info_nce(positive: Tensor, negatives: Sequence[Columns], *, label_smoothing: float = 0.0) -> Tensor:
    """InfoNCE of each anchor (SimCSE, eq. 1, 4 and 5).

    With p_i the positive's logit, n_ik the logit and w_ik the weight of column k::

        Z_i    = exp(p_i) + sum_k w_ik exp(n_ik)
        loss_i = -(1 - eps) log(exp(p_i) / Z_i) - eps / (K_i + 1) * sum over all K_i + 1 columns c of log(c / Z_i)

    computed by logsumexp in float32 at least; weights enter as logarithms, left-out columns count neither
    in Z_i nor in K_i. ``eps`` is label smoothing (Park's thesis, section on label smoothing).

    Args:
        positive: (N,) logits of the positives, already divided by the temperature.
        negatives: the columns of each source.
        label_smoothing: eps in [0, 1).

    Returns:
        (N,) losses.
    """
    logits = torch.cat([at_least_float32(positive).unsqueeze(1), *(c.weighted() for c in negatives)], dim=1)
    log_normaliser = torch.logsumexp(logits, dim=1)
    losses = log_normaliser - logits[:, 0]
    if label_smoothing == 0.0:
        return losses
    counted = torch.isfinite(logits)
    uniform = log_normaliser - logits.masked_fill(~counted, 0.0).sum(dim=1) / counted.sum(dim=1)
    return (1.0 - label_smoothing) * losses + label_smoothing * uniform


def masked_lm(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy at each masked position: (M, vocabulary), (M,) -> (M,), in float32 at least; M may be 0."""
    return functional.cross_entropy(at_least_float32(logits), labels, reduction="none")
