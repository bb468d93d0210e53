"""How the positive is made: one view, one file. To add one, name it in the union and in ``PARTS``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field

from opencse.objective.views.base import View
from opencse.objective.views.dropout import Dropout
from opencse.objective.views.next_sentence import NextSentence
from opencse.objective.views.pair import Pair
from opencse.settings import PartSettings

__all__ = ["View", "ViewSettings", "build_view"]

ViewSettings = Annotated[Dropout.Settings | NextSentence.Settings | Pair.Settings, Field(discriminator="kind")]

PARTS: Mapping[type[PartSettings], Callable[[Any], View]] = {
    Dropout.Settings: Dropout,
    NextSentence.Settings: NextSentence,
    Pair.Settings: Pair,
}


def build_view(settings: PartSettings) -> View:
    """The view that ``settings`` describe."""
    return PARTS[type(settings)](settings)
