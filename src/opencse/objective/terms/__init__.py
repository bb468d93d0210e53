"""Extra losses: one term, one file. To add one, name it in the union and in ``PARTS``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from opencse.objective.terms.base import Term
from opencse.objective.terms.mlm import MaskedLM
from opencse.settings import PartSettings

__all__ = ["Term", "TermSettings", "build_term"]

TermSettings = MaskedLM.Settings  # becomes a discriminated union with the second term

PARTS: Mapping[type[PartSettings], Callable[[Any], Term]] = {MaskedLM.Settings: MaskedLM}


def build_term(settings: PartSettings) -> Term:
    """The term that ``settings`` describe."""
    return PARTS[type(settings)](settings)
