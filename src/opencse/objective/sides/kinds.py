"""The two views, one of them twice, or versions of them with more or less noise, on the sides of a similarity."""

from __future__ import annotations

import math
from collections.abc import Set
from typing import Any, Literal

from pydantic import Field
from torch import Tensor

from opencse.objective.sides.base import Draw, Sides
from opencse.objective.similarity import standard_normal
from opencse.objective.vectors.requests import Clean, Means, Sentences
from opencse.objective.vectors.step import Representations, Request
from opencse.settings import FromZero, PartSettings


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
        return reps.positive, reps.positive


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
        clean = reps[Clean()]
        return clean, clean


class Mean(Sides):
    """Means of ``samples`` (K) fresh dropout draws of each view, less noise (SimCSE++, section 3.1, K = 10).

    ``shared`` takes one mean on both sides, of both views' draws (2K of them): the authors' code, which counts
    the two views themselves among its draws.

    Example:
        >>> import torch
        >>> from dataclasses import replace
        >>> means = torch.stack([torch.eye(2), torch.ones(2, 2)])  # of the anchors, of the positives
        >>> reps = replace(Representations.of(torch.eye(2), torch.eye(2)), answers={Means(10): means})
        >>> left, right = Mean(Mean.Settings(shared=True)).of(reps, torch.Generator)
        >>> left.tolist()
        [[1.0, 0.5], [0.5, 1.0]]
    """

    of_positives = False

    class Settings(PartSettings):
        """Settings of `Mean`."""

        kind: Literal["mean"] = "mean"
        samples: int = Field(default=10, ge=1, le=1_000_000)
        shared: bool = False

    settings: Settings

    @property
    def reads(self) -> Set[Request[Any]]:
        """The means."""
        return {Means(self.settings.samples)}

    @property
    def same_mirrored(self) -> bool:
        """As one mean of both views is."""
        return self.settings.shared

    def of(self, reps: Representations, draw: Draw) -> tuple[Tensor, Tensor]:
        """Each view's own mean, or the one of both twice."""
        means = reps[Means(self.settings.samples)]
        anchors, positives = means.mean(dim=0).expand_as(means) if self.settings.shared else means
        return anchors, positives


class Noisy(Views):
    """``(a + g, b + g')`` with g, g' ~ N(0, variance) in each dimension, more noise (SimCSE++, section 3.1, .1).

    The authors' code still has a version of it, with a standard deviation of .1 instead of a variance, which leaves the
    anchors as they are: ``(a, b + g')``, ``both = false``.

    Example:
        >>> import torch
        >>> reps = Representations.of(torch.eye(2), torch.eye(2))
        >>> left, right = Noisy(Noisy.Settings(both=False)).of(reps, lambda: torch.Generator().manual_seed(0))
        >>> bool((left == reps.anchor).all()), bool((right == reps.positive).any())
        (True, False)
    """

    class Settings(PartSettings):
        """Settings of `Noisy`."""

        kind: Literal["noisy"] = "noisy"
        both: bool = True
        variance: FromZero = 0.1

    settings: Settings

    def of(self, reps: Representations, draw: Draw) -> tuple[Tensor, Tensor]:
        """``(a + g, b + g')``, or ``(a, b + g')``."""
        sd, noise = math.sqrt(self.settings.variance), draw()
        anchor = reps.anchor
        if self.settings.both:
            anchor = anchor + sd * standard_normal(anchor.shape, anchor, noise)
        return anchor, reps.positive + sd * standard_normal(reps.positive.shape, reps.positive, noise)
