"""Extra losses: one term, one file. To add one, name it in the union and in ``PARTS``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field

from opencse.objective.terms.barlow_twins import BarlowTwins
from opencse.objective.terms.base import Term
from opencse.objective.terms.dcl import DCL
from opencse.objective.terms.mlm import MaskedLM
from opencse.settings import PartSettings

__all__ = ["Term", "TermSettings", "build_term"]

TermSettings = Annotated[MaskedLM.Settings | DCL.Settings | BarlowTwins.Settings, Field(discriminator="kind")]

PARTS: Mapping[type[PartSettings], Callable[[Any], Term]] = {
    MaskedLM.Settings: MaskedLM,
    DCL.Settings: DCL,
    BarlowTwins.Settings: BarlowTwins,
}


def build_term(settings: PartSettings) -> Term:
    """The term that ``settings`` describe."""
    return PARTS[type(settings)](settings)
