"""Computes the contrastive loss of a batch: all similarities at once if they are few, else tile by tile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from opencse.objective.columns import AnyColumns, LogitColumns, Pairs
from opencse.objective.losses.contrastive import binary_from_logits, info_nce_from_logits
from opencse.objective.losses.similarity import at_least_float32
from opencse.objective.tiled import tiled_info_nce

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

    If the similarities take more than ``tile_bytes``, they are made tile by tile (`tiled`): the same loss and
    gradients up to rounding, in memory that does not grow with their number. The binary loss is never made in tiles.

    Args:
        positive: the positives' similarities.
        negatives: the columns of each source, at least one.
        averaged: lists of sources, as numbers into ``negatives``; the loss is the mean of the losses with each list.
        loss: of each anchor; the binary one has no label smoothing.
        label_smoothing: eps in [0, 1).
        tile_bytes: most bytes of similarities that are made at once.
    """
    entries = sum(n * k for n, k in (columns.shape for columns in negatives))
    if loss == "binary" or entries * at_least_float32(positive.left[:0]).element_size() <= tile_bytes:
        return _dense(positive, [columns.dense() for columns in negatives], averaged, loss, label_smoothing)
    sums = tiled_info_nce(positive, negatives, averaged, label_smoothing=label_smoothing, tile_bytes=tile_bytes)
    return Contrast(
        sums.loss,
        sums.positive / len(positive.left),
        sums.negatives * positive.scoring.temperature / sums.counted.clamp(min=1),
        sums.duplicates,
    )


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
    return Contrast(
        of_anchors.mean(),
        similarity.detach().mean(),
        _mean_similarity(negatives, positive.scoring.temperature),
        _count_duplicates(negatives, positive.left.device),
    )


def _mean_similarity(columns: Sequence[LogitColumns], temperature: float) -> Tensor:
    logits = torch.cat([c.logits.detach().float() for c in columns], dim=1)
    counted = ~torch.cat([c.left_out for c in columns], dim=1)
    return logits.masked_fill(~counted, 0.0).sum() * temperature / counted.sum().clamp(min=1)


def _count_duplicates(columns: Sequence[LogitColumns], device: torch.device) -> Tensor:
    counts = [c.duplicates.sum() for c in columns if c.duplicates is not None]
    return torch.stack(counts).sum().float() if counts else torch.zeros((), device=device)
