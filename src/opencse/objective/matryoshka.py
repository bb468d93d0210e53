"""Matryoshka representation learning: trains the first dimensions of a vector to be a good vector too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from pydantic import Field, model_validator

from opencse.errors import UserError
from opencse.objective.columns import AnyColumns, Pairs, VectorColumns
from opencse.objective.context import ComposedSource
from opencse.objective.contrast import Contrast, ContrastLoss, contrast
from opencse.settings import Settings

_NO_VECTORS = "objective.matryoshka: {} gives similarities, not vectors that can be truncated; leave one of them out"


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


@dataclass(frozen=True)
class Matryoshka:
    """Contrasts the full vectors and their first dimensions (Kusupati et al. 2022, arXiv:2205.13147, eq. 1).

    With L_m the contrastive loss of all vectors truncated to their first m dimensions (and normalised, where the
    similarity is the cosine), d their length, and c_d = 1::

        loss = sum_{m in dimensions + d} c_m L_m / sum_m c_m

    The paper sums without dividing: here the loss, and with it the weight of other terms and of clipping, stays that of
    one contrast. The columns of every negative source are truncated: queues, layers, generated ones. Terms see full
    vectors.

    Attributes:
        dimensions: the lengths m, without d.
        weights: c_m of each.

    Example:
        >>> from opencse.objective.columns import Own, Scoring
        >>> vectors, scoring = torch.eye(4), Scoring(temperature=1.0, mask_duplicates=False)
        >>> positives = Pairs(vectors, vectors, scoring)
        >>> in_batch = VectorColumns(vectors, vectors, scoring, own=Own(excluded=True))
        >>> nested = Matryoshka(dimensions=(2,), weights=(1.0,))  # vectors 3 and 4 are zero in two dimensions
        >>> nested.contrast(positives, [in_batch], [[0]], label_smoothing=0.0, tile_bytes=2**20).loss
        tensor(0.9043)
    """

    dimensions: tuple[int, ...]
    weights: tuple[float, ...]

    @classmethod
    def of(cls, settings: MatryoshkaSettings) -> Matryoshka:
        """Makes a `Matryoshka` from its settings."""
        return cls(settings.dimensions, settings.weights or (1.0,) * len(settings.dimensions))

    def check(self, dimension: int) -> None:
        """Refuses lengths that vectors of ``dimension`` dimensions do not have.

        Raises:
            UserError: naming them.
        """
        if max(self.dimensions) >= dimension:
            raise UserError(
                f"objective.matryoshka.dimensions: {max(self.dimensions)} is not below the {dimension} dimensions of "
                "this encoder, which are always included; give smaller ones"
            )

    def check_contrast(self, negatives: Sequence[ComposedSource], *, learned_temperature: bool) -> None:
        """Refuses a contrast whose vectors cannot be truncated.

        Args:
            negatives: the sources of the objective.
            learned_temperature: whether its temperature is trained.

        Raises:
            UserError: in one line.
        """
        if not negatives:
            raise UserError("objective.matryoshka needs at least one negative source; add one, or leave it out")
        if learned_temperature:
            raise UserError(
                "objective.matryoshka normalises truncated vectors again, which undoes objective.learned_temperature; "
                "leave one of them out"
            )
        for source in negatives:
            if source.gives_logits:
                raise UserError(_NO_VECTORS.format(source.name))

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
        """The weighted mean of the losses; the figures are those of the full vectors. See `contrast`."""

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
        nested = [weight * truncated(length).loss for length, weight in zip(self.dimensions, self.weights, strict=True)]
        return replace(full, loss=torch.stack([full.loss, *nested]).sum() / (1 + sum(self.weights)))


def _pairs(pairs: Pairs, length: int | None) -> Pairs:
    return replace(pairs, left=pairs.left[:, :length], right=pairs.right[:, :length])


def _columns(columns: AnyColumns, length: int | None) -> AnyColumns:
    if length is None:
        return columns
    if not isinstance(columns, VectorColumns):
        raise UserError(_NO_VECTORS.format("a negative source"))
    return replace(columns, left=columns.left[:, :length], right=columns.right[:, :length])
