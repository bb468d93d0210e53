"""What an anchor is pushed from: one source, one file. To add one, name it in the union and in ``PARTS``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field

from opencse.objective.negatives.base import NegativeSource, Scoring
from opencse.objective.negatives.hard import Hard
from opencse.objective.negatives.in_batch import InBatch
from opencse.settings import PartSettings

__all__ = ["NegativeSettings", "NegativeSource", "Scoring", "build_negatives"]

NegativeSettings = Annotated[InBatch.Settings | Hard.Settings, Field(discriminator="kind")]

PARTS: Mapping[type[PartSettings], Callable[[Any], NegativeSource]] = {InBatch.Settings: InBatch, Hard.Settings: Hard}


def build_negatives(settings: PartSettings) -> NegativeSource:
    """The source that ``settings`` describe."""
    return PARTS[type(settings)](settings)
