"""Which vectors a similarity is taken between: the two views, or what is made of them with more or less noise."""

from __future__ import annotations

from typing import Annotated, Literal, assert_never

from pydantic import Field
from torch import Tensor

from opencse.objective.noise import noise_of, standard_normal
from opencse.objective.representations import Needs, Representations
from opencse.settings import PartSettings


class Views(PartSettings):
    """The two views as they are: ``(a, b)``."""

    kind: Literal["views"] = "views"


class Anchors(PartSettings):
    """The anchors on both sides: ``(a, a)``."""

    kind: Literal["anchors"] = "anchors"


class Clean(PartSettings):
    """The anchors' texts through the encoder without any dropout, on both sides: ``(c, c)`` (SimCSE++, eq. 3).

    A third forward of N rows, with gradient. An encoder without dropout needs none: there ``c = a``.
    """

    kind: Literal["clean"] = "clean"


class Mean(PartSettings):
    """Means of ``samples`` (K) fresh dropout draws of each view, less noise (SimCSE++, section 3.1, K = 10).

    ``shared`` takes one mean on both sides, that of both views' draws (2K of them): the authors' code, which counts
    the two views themselves among its draws.
    """

    kind: Literal["mean"] = "mean"
    samples: int = Field(default=10, ge=1, le=1_000_000)
    shared: bool = False


class Noisy(PartSettings):
    """``(a + g, b + g')`` with g, g' drawn from N(0, variance) a number, more noise (SimCSE++, section 3.1, .1).

    What is left of it in the authors' code has a standard deviation of .1, not a variance, and leaves the anchors
    as they are: ``(a, b + g')``, ``both = false``.
    """

    kind: Literal["noisy"] = "noisy"
    both: bool = True
    variance: float = Field(default=0.1, ge=0, allow_inf_nan=False)


SidesSettings = Annotated[Views | Anchors | Clean | Mean | Noisy, Field(discriminator="kind")]


def needs_of(settings: SidesSettings) -> Needs:
    """What ``settings`` read."""
    if isinstance(settings, Clean):
        return Needs(clean=True)
    if isinstance(settings, Mean):
        return Needs(samples=settings.samples)
    return Needs(sentences=True)


def sides(settings: SidesSettings, reps: Representations) -> tuple[Tensor, Tensor]:
    """The left and the right vectors of a similarity, each (N, d)."""
    match settings:
        case Views():
            return reps.anchor, reps.positive
        case Anchors():
            return reps.anchor, reps.anchor
        case Clean():
            clean = _given(reps.clean, "vectors without dropout")
            return clean, clean
        case Mean():
            means = _given(reps.means, "means over dropout draws")
            left, right = means.mean(dim=0).expand_as(means) if settings.shared else means
            return left, right
        case Noisy():
            left = _noisy(reps.anchor, settings.variance, reps) if settings.both else reps.anchor
            return left, _noisy(reps.positive, settings.variance, reps)
        case _:
            assert_never(settings)


def _noisy(vectors: Tensor, variance: float, reps: Representations) -> Tensor:
    scale: float = variance**0.5
    return vectors + scale * standard_normal(vectors.shape, vectors, noise_of(reps))


def _given(vectors: Tensor | None, what: str) -> Tensor:
    if vectors is None:
        raise RuntimeError(f"this step was given no {what}")
    return vectors
