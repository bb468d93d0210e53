"""Keeps the encoder near the one that training begins with: its vectors, or its weights."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.context import Context
from opencse.objective.losses.distillation import vector_distance
from opencse.objective.teachers.teacher import START, Teacher, TeacherSettings, TeacherVectors
from opencse.objective.terms.base import Term
from opencse.objective.vectors.encoder_weights import BackboneWeights
from opencse.objective.vectors.step import Representations, Request
from opencse.settings import PartSettings


class NearStart(Term):
    """A penalty for leaving the start, so that training on few texts forgets less of what the encoder knew.

    With v a text's vector, v_0 the start's vector of it, theta and theta_0 the weights of the backbone::

        loss = vectors * mean over both views of distance(v, v_0)  +  weights * sum (theta - theta_0)^2

    ``distance`` is ``1 - cos`` or the mean squared difference per dimension. The penalty of the weights is SG-OPT's
    (Kim et al. 2021, arXiv:2106.07345, eq. 5, there with .1 and without the square). The start's vectors are made
    without dropout. It is used in place of, or with, the averages of weights of `opencse adapt`
    (``training.average_with_start``)::

        opencse adapt docs -s 'objective.terms=[{kind="near_start", vectors=1.0}]' -s training.average_with_start=[1.0]

    The log has ``start_distance``, the first mean, where vectors are compared.

    Example:
        >>> NearStart.Settings().vectors, NearStart.Settings(vectors=0.0, weights=0.1).weights
        (1.0, 0.1)
    """

    class Settings(PartSettings):
        """Settings of `NearStart`.

        Attributes:
            weight: of the term.
            vectors: factor of the distance of vectors.
            weights: factor of the distance of weights.
            distance: of two vectors.
        """

        kind: Literal["near_start"] = "near_start"
        weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
        vectors: float = Field(default=1.0, ge=0, allow_inf_nan=False)
        weights: float = Field(default=0.0, ge=0, allow_inf_nan=False)
        distance: Literal["cosine", "mse"] = "cosine"

        @model_validator(mode="after")
        def _something_is_near(self) -> NearStart.Settings:
            if not self.vectors and not self.weights:
                raise ValueError("vectors and weights are both 0, so nothing is compared; set one of them")
            return self

    settings: Settings
    compares_examples = False

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        plain = TeacherSettings(model=START)
        self.teacher = Teacher(plain, f"{self.kind} term")
        self.request = TeacherVectors(plain, "views", self.teacher)

    @property
    def reads(self) -> Set[Request[Any]]:
        """The vectors of the views and the start's, and the weights, as far as the settings need them."""
        vectors = {*super().reads, self.request} if self.settings.vectors else set()
        return {*vectors, *([BackboneWeights()] if self.settings.weights else [])}

    def check(self, context: Context) -> None:
        """Refuses vectors of a training head, which the start's vectors have not gone through."""
        encoder = context.encoder
        if self.settings.vectors and encoder is not None and encoder.projection is not None:
            raise UserError(
                f"the {self.kind} term compares vectors with the start's, which have no training head; set "
                "encoder.head.kind=none, or compare the weights alone (vectors=0, weights=0.1)"
            )

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Copies the start."""
        super().begin(encoder, batch_size=batch_size, seed=seed)
        self.teacher.begin(encoder)

    def loss(self, reps: Representations) -> Tensor:
        """The sum of both penalties."""
        settings, total = self.settings, torch.zeros((), device=reps.keys.device)
        if settings.vectors:
            total = total + settings.vectors * self._distance(reps)
        if settings.weights:
            shared = reps[BackboneWeights()]
            start = dict(self.teacher.model.backbone.named_parameters())
            squares = [(weight - start[name]).square().sum() for name, weight in shared.weights.items()]
            total = total + settings.weights * shared.once(torch.stack(squares).sum())
        return total

    def diagnose(self, reps: Representations) -> dict[str, Tensor]:
        """``start_distance``: the mean distance of the vectors from the start's."""
        return {"start_distance": self._distance(reps)} if self.settings.vectors else {}

    def _distance(self, reps: Representations) -> Tensor:
        taught = reps[self.request]
        both = torch.cat([reps.anchor, reps.positive])
        start = torch.cat([taught.anchor, taught.positive])
        if not self._is_normalised:
            return vector_distance(both, start, self.settings.distance)
        return vector_distance(nn.functional.normalize(both, dim=1), start, self.settings.distance)

    @property
    def _is_normalised(self) -> bool:
        """Whether saved vectors have length 1: the start's have, those of training have not."""
        return self.teacher.model.normalize
