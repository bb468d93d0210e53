"""Triplets with a margin: a positive should be nearer than the data's hard negative."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Literal

from pydantic import Field
from torch import Tensor

from opencse.errors import UserError
from opencse.objective.context import Context
from opencse.objective.losses.graded import Distance, triplet, triplet_shortfall
from opencse.objective.terms.base import Term
from opencse.objective.vectors.requests import HardNegatives, Sentences
from opencse.objective.vectors.step import Representations, Request
from opencse.settings import PartSettings


class Triplet(Term):
    """Triplet loss: the positive should be nearer to the anchor than each hard negative of the row, by a margin.

    ``loss = mean of max(distance(anchor, positive) - distance(anchor, negative) + margin, 0)``; the other rows of the
    batch do not count. The log has ``triplets_inside``, the share of negatives that are not yet further by the margin:
    only these have a gradient.

    `opencse.objective.losses.triplet` is the loss as a function of tensors, with its source.

    Example:
        >>> import torch
        >>> reps = Representations.of(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]), torch.tensor([[[0.0, 2.0]]]))
        >>> Triplet().loss(reps)  # 5 - 2 + 1
        tensor(4.)
    """

    class Settings(PartSettings):
        """Settings of `Triplet`.

        Attributes:
            weight: of the term.
            margin: by which the negative should be further.
            distance: ``euclidean``, ``manhattan``, or ``cosine`` (1 - cos, from 0 to 2: choose a margin below 1).
        """

        kind: Literal["triplet"] = "triplet"
        weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
        margin: float = Field(default=1.0, ge=0, allow_inf_nan=False)
        distance: Distance = "euclidean"

    settings: Settings
    compares_examples = False

    @property
    def reads(self) -> Set[Request[Any]]:
        """The vectors of the pairs, and the hard negatives."""
        return {Sentences(), HardNegatives()}

    def check(self, context: Context) -> None:
        """Refuses data without hard negatives, and a margin that no cosine distance reaches."""
        if self.settings.distance == "cosine" and self.settings.margin > 2:
            raise UserError(
                f"the triplet term's margin {self.settings.margin:g} is above 2, the largest cosine distance; lower it"
            )
        if context.hard == 0:
            raise UserError(
                f"{context.source}: the triplet term needs a hard negative in each row, and its rows hold none; name a "
                "third column, or choose a recipe for pairs (simcse-supervised)"
            )

    def loss(self, reps: Representations) -> Tensor:
        """`losses.triplet` of the rows."""
        settings = self.settings
        return triplet(reps.anchor, reps.positive, reps.hard, margin=settings.margin, distance=settings.distance)

    def diagnose(self, reps: Representations) -> dict[str, Tensor]:
        """``triplets_inside``: the share of hard negatives that are not yet further by the margin."""
        settings = self.settings
        shortfall = triplet_shortfall(
            reps.anchor, reps.positive, reps.hard, margin=settings.margin, distance=settings.distance
        )
        return {"triplets_inside": (shortfall > 0).float().mean()}
