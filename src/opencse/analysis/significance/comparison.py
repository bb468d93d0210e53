"""What every comparison of a system with a baseline says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated

from pydantic import Field, FiniteFloat

from opencse.settings import Settings

ALPHA = 0.05
"""The level of every test here, and 1 - ALPHA that of every interval."""

Interval = tuple[FiniteFloat, FiniteFloat]
"""The lower and upper end of a 95% interval."""

Probability = Annotated[float, Field(ge=0, le=1)]


class AfterHolm(Settings):
    """A p adjusted for its family (``holm``).

    Attributes:
        p: the adjusted p.
        comparisons: the size of the family.
    """

    p: Probability
    comparisons: int


class Comparison(Settings, ABC):
    """System minus baseline; higher is better.

    Attributes:
        difference: system minus baseline, in points (scores are x 100).
        interval: its 95% interval; None where none can be given.
        p: two-sided, of no difference; None where no test is defined.
        holm: the p after adjustment for the family it was looked at with; None if it was not.
    """

    difference: FiniteFloat
    interval: Interval | None
    p: Probability | None
    holm: AfterHolm | None = None

    @abstractmethod
    def over(self) -> str:
        """What it was taken over, for instance ``5 paired seeds``."""

    def undecided(self) -> str:
        """What it means here that p is absent or not below ``ALPHA``."""
        return "no difference shown"
