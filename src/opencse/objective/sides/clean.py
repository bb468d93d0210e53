"""The anchors' vectors without dropout, on both sides of a similarity."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Literal

from torch import Tensor

from opencse.objective.sides.base import Draw, Sides
from opencse.objective.vectors.requests import Clean
from opencse.objective.vectors.step import Representations, Request
from opencse.settings import PartSettings


class CleanSides(Sides):
    """The anchors' texts through the encoder without any dropout, on both sides: ``(c, c)`` (SimCSE++, eq. 3).

    A third forward of N rows, with gradient. An encoder without dropout needs none: there ``c = a``.

    Example:
        >>> import torch
        >>> from dataclasses import replace
        >>> reps = replace(Representations.of(torch.eye(2), torch.eye(2)), answers={Clean(): torch.ones(2, 2)})
        >>> left, right = CleanSides().of(reps, torch.Generator)
        >>> left is right, left.tolist()
        (True, [[1.0, 1.0], [1.0, 1.0]])
    """

    recordable = True

    of_positives = False
    texts = ("anchor", "anchor")

    class Settings(PartSettings):
        """Settings of `CleanSides`."""

        kind: Literal["clean"] = "clean"

    @property
    def reads(self) -> Set[Request[Any]]:
        """The vectors without dropout."""
        return {Clean()}

    @property
    def same_mirrored(self) -> bool:
        """They are of the anchors' texts in both directions."""
        return True

    def of(self, reps: Representations, draw: Draw) -> tuple[Tensor, Tensor]:
        """``(c, c)``."""
        del draw
        clean = reps[Clean()]
        return clean, clean
