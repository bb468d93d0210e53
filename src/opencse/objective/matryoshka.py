"""Matryoshka representation learning: the first dimensions of a vector are to be a good vector themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from pydantic import Field, model_validator

from opencse.errors import UserError
from opencse.objective.columns import AnyColumns, Pairs, VectorColumns
from opencse.objective.contrast import Contrast, contrast
from opencse.settings import Settings


class MatryoshkaSettings(Settings):
    """Settings of `Matryoshka`.

    Attributes:
        dimensions: of the nested vectors, shortest or longest first; the whole vector is always among them.
        weights: of each of ``dimensions``, beside 1 of the whole vector; unset, 1 each.
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
    """The contrast of the whole vectors and of their first dimensions (Kusupati et al. 2022, eq. 1).

    With L_m the contrastive loss of all vectors cut to their first m numbers (and normalised, where the similarity is
    the cosine), d their length, and c_d = 1::

        loss = sum_{m in dimensions + d} c_m L_m / sum_m c_m

    The paper sums without dividing: here the loss, and with it the weight of other terms and of clipping, stays that of
    one contrast. Columns of every negative source are cut: queues, layers, generated ones. Terms see whole vectors.

    Attributes:
        dimensions: the lengths m besides d.
        weights: c_m of each.
    """

    dimensions: tuple[int, ...]
    weights: tuple[float, ...]

    @classmethod
    def of(cls, settings: MatryoshkaSettings) -> Matryoshka:
        """As the settings say."""
        return cls(settings.dimensions, settings.weights or (1.0,) * len(settings.dimensions))

    def check(self, dimension: int) -> None:
        """Refuses lengths that vectors of ``dimension`` numbers do not have.

        Raises:
            UserError: naming them.
        """
        if max(self.dimensions) >= dimension:
            raise UserError(
                f"objective.matryoshka.dimensions are below the {dimension} of this encoder (which are always among "
                f"them), not {max(self.dimensions)}"
            )

    def contrast(
        self,
        positive: Pairs,
        negatives: Sequence[AnyColumns],
        averaged: Sequence[Sequence[int]],
        *,
        label_smoothing: float,
        tile_bytes: int,
    ) -> Contrast:
        """The mean of the contrasts; what is told is that of the whole vectors. See `opencse.objective.contrast`."""

        def cut(length: int | None) -> Contrast:
            return contrast(
                _pairs(positive, length),
                [_columns(columns, length) for columns in negatives],
                averaged,
                label_smoothing=label_smoothing,
                tile_bytes=tile_bytes,
            )

        whole = cut(None)
        nested = [weight * cut(length).loss for length, weight in zip(self.dimensions, self.weights, strict=True)]
        return replace(whole, loss=torch.stack([whole.loss, *nested]).sum() / (1 + sum(self.weights)))


def _pairs(pairs: Pairs, length: int | None) -> Pairs:
    return replace(pairs, left=pairs.left[:, :length], right=pairs.right[:, :length])


def _columns(columns: AnyColumns, length: int | None) -> AnyColumns:
    if length is None:
        return columns
    if not isinstance(columns, VectorColumns):
        raise UserError(
            "objective.matryoshka: a negative source gives similarities, not vectors, which cannot be cut (layers with "
            'columns = "own", for one); leave it out'
        )
    return replace(columns, left=columns.left[:, :length], right=columns.right[:, :length])
