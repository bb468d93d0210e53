"""The base classes of negative sources: what an anchor is pushed away from."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence, Set
from typing import Any, ClassVar, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.columns import AnyColumns, Scoring, VectorColumns
from opencse.objective.losses.similarity import at_least_float32
from opencse.objective.negatives.pool import nearest_of_each, nearest_of_pool
from opencse.objective.negatives.vector_queue import VectorQueue, empty_store
from opencse.objective.noise import centre_and_spread
from opencse.objective.part import Part
from opencse.objective.vectors.requests import Sentences
from opencse.objective.vectors.step import Representations, Request, StepInputs
from opencse.settings import PartSettings


class NegativeSource(Part, ABC):
    """A source of negatives: takes the vectors of a step, gives columns of the contrast's denominator."""

    @property
    def reads(self) -> Set[Request[Any]]:
        """The vectors of the views."""
        return {Sentences()}

    of_both_sides: ClassVar[bool] = True
    """Whether it has columns of the positives too, if `Objective.directions` reads the columns."""

    @property
    def averaged_with_plain(self) -> bool:
        """Whether the loss is the mean of the losses with and without this source's columns."""
        return False

    @property
    def gives_logits(self) -> bool:
        """Whether `columns` gives similarities; ``objective.matryoshka`` needs vectors, which it truncates."""
        return False

    @property
    def stored(self) -> int:
        """The most vectors of earlier steps that it stores; 0 for none, and before `begin`."""
        return 0

    @abstractmethod
    def columns(self, reps: Representations, scoring: Scoring) -> AnyColumns:
        """This source's columns of the denominator: by their vectors, or as logits if they are few."""

    @abstractmethod
    def count(self, batch_size: int, hard: int) -> int:
        """Columns per anchor in a full batch, for the plan that is printed."""


class GeneratedSettings(PartSettings):
    """Settings of every source of sampled vectors.

    Attributes:
        count: columns per anchor, as a multiple of the batch (1 = N, as in Table 5 of the thesis), rounded; 0 for none,
            which leaves the loss as it is without this source.
        weight: of each column.
        pool: how many vectors are drawn, as a multiple of the batch, of which the ``count`` times N hardest are
            columns: those with the highest cosine to an anchor (Park's thesis, sections 7.3 and 8, which leaves the
            measure open). Unset: as many as there are columns.
        hardest: whether all anchors share the columns nearest to any of them (``batch``), or each anchor has those
            nearest to itself (``anchor``; the pool stays in memory then).
    """

    count: float = Field(default=1.0, ge=0, le=1_048_576)
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    pool: float | None = Field(default=None, gt=0, le=1_048_576)
    hardest: Literal["batch", "anchor"] = "batch"

    @model_validator(mode="after")
    def _pool_is_large_enough(self) -> Self:
        if self.pool is not None and self.pool < self.count:
            raise ValueError(f"a pool of {self.pool:g} times the batch has no {self.count:g} to keep; raise pool")
        return self

    def rows(self, batch_size: int) -> int:
        """The number of vectors to sample for a batch of ``batch_size``."""
        return round(self.count * batch_size)


class Generated(NegativeSource):
    """A source of vectors that are sampled at every step and shared by all its anchors.

    Samples are made in float32 at least, autocast or not, and have no gradient: neither into the model that made them
    nor, through the batch's statistics, into the encoder. They have no text, so none is left out as a duplicate.
    """

    settings: GeneratedSettings

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Refuses a share of the batch that is less than one vector."""
        del encoder, seed
        settings = self.settings
        if settings.count > 0 and settings.rows(batch_size) == 0:
            raise UserError(
                f"{settings.kind}: count {settings.count:g} gives no vector for a batch of {batch_size}; set a larger "
                "count"
            )

    def count(self, batch_size: int, hard: int) -> int:
        """``count`` times N, rounded."""
        del hard
        return self.settings.rows(batch_size)

    def columns(self, reps: Representations, scoring: Scoring) -> VectorColumns:
        """(N, K) columns, K = ``count`` times the anchors of this step, rounded; so many count of each anchor."""
        anchors, settings = at_least_float32(reps.anchor.detach()), self.settings
        rows = settings.rows(len(anchors))
        samples, far = anchors[:0], None
        if rows:
            noise = self.noise(reps)

            def draw(some: int) -> Tensor:
                return self.generate(anchors, some, noise).to(anchors)

            with torch.autocast(anchors.device.type, enabled=False):
                pool = rows if settings.pool is None else max(rows, round(settings.pool * len(anchors)))
                if pool == rows:
                    samples = draw(rows)
                elif settings.hardest == "batch":
                    samples = nearest_of_pool(anchors, draw, pool, rows)
                else:
                    samples, far = nearest_of_each(anchors, draw, pool, rows)
        return VectorColumns(reps.anchor, samples, scoring, log_weight=math.log(settings.weight), false=far)

    @abstractmethod
    def generate(self, anchors: Tensor, rows: int, noise: torch.Generator) -> Tensor:
        """Samples (``rows``, d) vectors, or (0, d) if there is nothing to sample from yet.

        Args:
            anchors: (N, d) of this step, without gradient, float32 at least.
            rows: how many vectors, at least 1.
            noise: the generator of all draws.
        """


class FittedSettings(GeneratedSettings):
    """Settings of every source that is fitted on outputs of earlier steps.

    Attributes:
        steps: how many steps' outputs the model is fitted on (8 in the thesis).
    """

    steps: int = Field(default=8, ge=1, le=1_000_000)


class Distribution(nn.Module, ABC):
    """A distribution that is fitted to points and sampled from; its state is buffers of fixed shape."""

    @property
    @abstractmethod
    def fitted(self) -> bool:
        """Whether it has seen enough points to be sampled from."""

    @abstractmethod
    def fit(self, points: Tensor, noise: torch.Generator) -> None:
        """Updates its state to ``points`` (n, d), float32 or float64; called outside autocast."""

    @abstractmethod
    def sample(self, rows: int, noise: torch.Generator) -> Tensor:
        """Draws (``rows``, d) points."""


class Fitted(Generated):
    """Samples of a distribution that is fitted, after every step, on the outputs of the last ``steps`` steps.

    The outputs are the anchors' vectors after the training head, the last ``steps`` times N of them. Before the first
    fit there are no columns.
    """

    settings: FittedSettings

    def __init__(self, settings: FittedSettings | None = None) -> None:
        super().__init__(settings)
        self.store: VectorQueue | None = None
        self.distribution: Distribution | None = None

    @property
    def stored(self) -> int:
        """The size of its queue, after `begin`."""
        return 0 if self.store is None else self.store.size

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Makes the empty store and the distribution."""
        super().begin(encoder, batch_size=batch_size, seed=seed)
        self.store = empty_store(encoder, self.settings.steps * batch_size)
        self.distribution = self.new_distribution(self.store, seed)

    @abstractmethod
    def new_distribution(self, store: VectorQueue, seed: int) -> Distribution:
        """An unfitted distribution for the vectors of ``store``."""

    def generate(self, anchors: Tensor, rows: int, noise: torch.Generator) -> Tensor:
        """Draws (``rows``, d) vectors, or (0, d) before the first fit."""
        distribution, _ = self._require_begun()
        return distribution.sample(rows, noise) if distribution.fitted else anchors[:0]

    def after_backward(
        self, encoder: SentenceEncoder, inputs: Sequence[StepInputs], reps: Sequence[Representations]
    ) -> None:
        """Stores this step's anchors, then fits once."""
        del encoder, inputs
        distribution, store = self._require_begun()
        for batch in reps:
            store.push(batch.anchor, batch.keys[:, 0])
        with torch.autocast(store.vectors.device.type, enabled=False):
            distribution.fit(at_least_float32(store.vectors), self.noise(reps[-1], "fit"))

    def _require_begun(self) -> tuple[Distribution, VectorQueue]:
        assert self.distribution is not None
        assert self.store is not None
        return self.distribution, self.store


def standardised(points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Scales points to mean 0 and sd 1 in each dimension, 0 where a dimension has no spread; with their mean and sd.

    So a fit does not depend on the scale of the vectors, which differs between heads.
    """
    mean, sd = centre_and_spread(points)
    sd = sd.masked_fill((points == points[0]).all(dim=0), 0.0)  # exactly 0, which rounding may miss
    return (points - mean) / torch.where(sd > 0, sd, 1.0), mean, sd
