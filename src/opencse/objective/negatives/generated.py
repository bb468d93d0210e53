"""Negatives that no sentence stands behind: sampled from the anchors' distribution."""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from pydantic import Field
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.columns import Scoring, VectorColumns
from opencse.objective.losses import at_least_float32
from opencse.objective.negatives.base import NegativeSource
from opencse.objective.vectors.step import Representations
from opencse.settings import PartSettings


class GeneratedSettings(PartSettings):
    """What every sampled source can be told.

    Attributes:
        count: columns an anchor gets, as a multiple of the batch (1 = N, as in Table 5 of the thesis), rounded; 0 is
            none, which leaves the loss as it is without this source.
        weight: of each column.
    """

    count: float = Field(default=1.0, ge=0, le=1_048_576)
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)

    def rows(self, batch_size: int) -> int:
        """Vectors to sample at a batch of ``batch_size``."""
        return round(self.count * batch_size)


class Generated(NegativeSource):
    """A source of sampled vectors, drawn anew at every step and shared by all anchors of it.

    Samples are made in float32 at least, autocast or not, and carry no gradient: neither into whatever made them nor,
    through the batch's statistics, into the encoder. They have no text, so none is left out as a duplicate.
    """

    settings: GeneratedSettings

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Refuses a share of the batch that is not a single vector."""
        del encoder, seed
        settings = self.settings
        if settings.count > 0 and settings.rows(batch_size) == 0:
            raise UserError(
                f"{settings.kind}: {settings.count:g} times a batch of {batch_size} is no vector; set a larger count"
            )

    def count(self, batch_size: int, hard: int) -> int:
        """``count`` times N, rounded."""
        del hard
        return self.settings.rows(batch_size)

    def columns(self, reps: Representations, scoring: Scoring) -> VectorColumns:
        """(N, K) columns, K = ``count`` times the anchors of this very step, rounded."""
        anchors = at_least_float32(reps.anchor.detach())
        rows = self.settings.rows(len(anchors))
        samples = anchors[:0]
        if rows:
            with torch.autocast(anchors.device.type, enabled=False):
                samples = self.generate(anchors, rows, self.noise(reps)).to(anchors)
        return VectorColumns(reps.anchor, samples, scoring, log_weight=math.log(self.settings.weight))

    @abstractmethod
    def generate(self, anchors: Tensor, rows: int, noise: torch.Generator) -> Tensor:
        """(``rows``, d) vectors, or (0, d) where there is nothing to sample from yet.

        Args:
            anchors: (N, d) of this step, without gradient, float32 at least.
            rows: at least 1.
            noise: what all randomness comes from.
        """
