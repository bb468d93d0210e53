"""Requests for the label of each row of the data: a score, a class, or a margin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from opencse.errors import UserError
from opencse.kernels.outputs import Encoded
from opencse.objective.context import Context
from opencse.objective.vectors.step import Forward, Request
from opencse.text.labels import LabelKind


@dataclass(frozen=True)
class Scores(Request[Tensor]):
    """(N,) float32: the scores of the step's rows, from 0 to 1; the labels of the anchors' rows in the data."""

    encodes: ClassVar[bool] = False
    label: ClassVar[LabelKind | None] = "score"

    def check(self, context: Context) -> None:
        """Refuses an objective that reads both scores and classes, and data without them."""
        both = sorted({str(kind) for kind in (getattr(one, "label", None) for one in context.objective.reads) if kind})
        if len(both) > 1:
            raise UserError(
                f"some terms read the {both[0]} of a row and others its {both[1]}, and a row has one label; use two "
                "data sets, each with terms of one kind"
            )
        if context.hard is not None and context.label != self.label:
            raise UserError(
                f"{context.source}: its rows hold no {self.label}, which the objective reads; name the column of it "
                "last in --columns, or choose a recipe without labels"
            )

    def ask(self, forward: Forward) -> Callable[[Encoded], Tensor]:
        """Takes the labels of the step; adds nothing to the forward pass."""
        labels = forward.inputs.labels
        if labels is None:
            raise RuntimeError("the step has no labels")
        return lambda encoded: labels


@dataclass(frozen=True)
class Classes(Scores):
    """(N,) int64: the numbers of the classes of the step's rows, from 0."""

    label: ClassVar[LabelKind | None] = "class"

    def ask(self, forward: Forward) -> Callable[[Encoded], Tensor]:
        """Takes the labels of the step as whole numbers."""
        scores = super().ask(forward)
        return lambda encoded: scores(encoded).long()


@dataclass(frozen=True)
class Margins(Scores):
    """(N,) float32: by how much a teacher scores the positive of a row above its hard negative."""

    label: ClassVar[LabelKind | None] = "margin"
