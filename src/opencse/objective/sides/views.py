"""The views as they are."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Literal

from torch import Tensor

from opencse.objective.sides.base import Draw, Sides
from opencse.objective.vectors.requests import Sentences
from opencse.objective.vectors.step import Representations, Request
from opencse.settings import PartSettings


class Views(Sides):
    """The two views as they are: ``(a, b)``."""

    class Settings(PartSettings):
        """Settings of `Views`."""

        kind: Literal["views"] = "views"

    @property
    def reads(self) -> Set[Request[Any]]:
        """Both views."""
        return {Sentences()}

    def of(self, reps: Representations, draw: Draw) -> tuple[Tensor, Tensor]:
        """``(a, b)``."""
        del draw
        return reps.anchor, reps.positive


class Anchors(Views):
    """The anchors on both sides: ``(a, a)``."""

    of_positives = False

    class Settings(PartSettings):
        """Settings of `Anchors`."""

        kind: Literal["anchors"] = "anchors"

    def of(self, reps: Representations, draw: Draw) -> tuple[Tensor, Tensor]:
        """``(a, a)``."""
        del draw
        return reps.anchor, reps.anchor
