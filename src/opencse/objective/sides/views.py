"""The two views, or one of them twice, on the sides of a similarity."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Literal

from torch import Tensor

from opencse.objective.sides.base import Draw, Sides
from opencse.objective.vectors.requests import Sentences
from opencse.objective.vectors.step import Representations, Request
from opencse.settings import PartSettings


class Views(Sides):
    """The two views as they are: ``(a, b)``.

    Example:
        >>> import torch
        >>> reps = Representations.of(torch.eye(2), torch.ones(2, 2))
        >>> Views().of(reps, torch.Generator)[1].tolist()
        [[1.0, 1.0], [1.0, 1.0]]
    """

    recordable = True

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
    """The anchors on both sides: ``(a, a)``.

    Example:
        >>> import torch
        >>> reps = Representations.of(torch.eye(2), torch.ones(2, 2))
        >>> Anchors().of(reps, torch.Generator)[1].tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """

    of_positives = False
    texts = ("anchor", "anchor")

    class Settings(PartSettings):
        """Settings of `Anchors`."""

        kind: Literal["anchors"] = "anchors"

    def of(self, reps: Representations, draw: Draw) -> tuple[Tensor, Tensor]:
        """``(a, a)``."""
        del draw
        return reps.anchor, reps.anchor


class PositivesTwice(Views):
    """The positives on both sides: ``(b, b)``.

    Example:
        >>> import torch
        >>> reps = Representations.of(torch.eye(2), torch.ones(2, 2))
        >>> PositivesTwice().of(reps, torch.Generator)[0].tolist()
        [[1.0, 1.0], [1.0, 1.0]]
    """

    texts = ("positive", "positive")

    class Settings(PartSettings):
        """Settings of `PositivesTwice`."""

        kind: Literal["positives"] = "positives"

    def of(self, reps: Representations, draw: Draw) -> tuple[Tensor, Tensor]:
        """``(b, b)``."""
        del draw
        return reps.positive, reps.positive
