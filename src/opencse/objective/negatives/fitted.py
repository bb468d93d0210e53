"""Negatives sampled from a model that is fitted on the outputs of the last steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from pydantic import Field
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.objective.losses import at_least_float32
from opencse.objective.negatives.generated import Generated, GeneratedSettings
from opencse.objective.negatives.vector_queue import VectorQueue, empty_store
from opencse.objective.noise import centre_and_spread
from opencse.objective.vectors.step import Representations, StepInputs


class FittedSettings(GeneratedSettings):
    """What every fitted source can be told.

    Attributes:
        steps: how many steps' outputs the model is fitted on (8 in the thesis).
    """

    steps: int = Field(default=8, ge=1, le=1_000_000)


class Distribution(nn.Module, ABC):
    """Something that follows a cloud of points and can be sampled from; its state is buffers of fixed shape."""

    @property
    @abstractmethod
    def fitted(self) -> bool:
        """Whether it has seen enough to be sampled from."""

    @abstractmethod
    def fit(self, points: Tensor, noise: torch.Generator) -> None:
        """Moves on from its last state towards ``points`` (n, d), float32 or float64, outside autocast."""

    @abstractmethod
    def sample(self, rows: int, noise: torch.Generator) -> Tensor:
        """(``rows``, d) draws."""


class Fitted(Generated):
    """A distribution fitted after every step on the outputs of the last ``steps`` steps, sampled in the next one.

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
        """The size of its queue, once it has begun."""
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
        """(``rows``, d) draws, or (0, d) before the first fit."""
        distribution, _ = self._begun()
        return distribution.sample(rows, noise) if distribution.fitted else anchors[:0]

    def after_backward(
        self, encoder: SentenceEncoder, inputs: Sequence[StepInputs], reps: Sequence[Representations]
    ) -> None:
        """Stores this step's anchors, then fits once."""
        del encoder, inputs
        distribution, store = self._begun()
        for batch in reps:
            store.push(batch.anchor, batch.keys[:, 0])
        with torch.autocast(store.vectors.device.type, enabled=False):
            distribution.fit(at_least_float32(store.vectors), self.noise(reps[-1], "fit"))

    def _begun(self) -> tuple[Distribution, VectorQueue]:
        if self.distribution is None or self.store is None:
            raise RuntimeError(f"the {self.settings.kind} negatives are used before begin")
        return self.distribution, self.store


def standardised(points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Points of mean 0 and sd 1 in each dimension, with the mean and sd they had; 0 where a dimension has no spread.

    So a fit does not depend on the scale of the vectors, which differs from head to head.
    """
    mean, sd = centre_and_spread(points)
    sd = sd.masked_fill((points == points[0]).all(dim=0), 0.0)  # whatever rounding made of it
    return (points - mean) / torch.where(sd > 0, sd, 1.0), mean, sd
