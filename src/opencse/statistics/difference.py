"""What every test of a system against a baseline says, in numbers and in one plain sentence."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from typing import Annotated, TypeVar

from pydantic import Field, FiniteFloat

from opencse.settings import Settings

ALPHA = 0.05
"""The level of every test here, and 1 - ALPHA that of every interval."""

LEAST_SHOWN = 0.001

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


class Difference(Settings, ABC):
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

    def decides(self) -> bool:
        """Whether it rests on enough to say better or worse at all."""
        return True

    def undecided(self) -> str:
        """What it means here that p is absent or not below ``ALPHA``."""
        return "no difference shown"

    def decisive_p(self) -> float | None:
        """The p after Holm if the difference was adjusted, else p; None where there is too little to decide on."""
        if not self.decides():
            return None
        return self.p if self.holm is None else self.holm.p

    def direction(self) -> str | None:
        """``better`` or ``worse`` where ``decisive_p`` is below ``ALPHA``, else None."""
        p = self.decisive_p()
        if p is None or p >= ALPHA:
            return None
        return "better" if self.difference > 0 else "worse"


D = TypeVar("D", bound=Difference)
K = TypeVar("K", bound=Hashable)


def holm(p_values: Mapping[K, float | None]) -> dict[K, float]:
    r"""Adjusts p so that a false claim anywhere in the family has at most the level's chance (Holm 1979).

    With the m values in rising order :math:`p_{(1)} \le \dots \le p_{(m)}`,

    .. math:: \tilde p_{(i)} = \min\Big(1, \max_{j \le i}\, (m - j + 1)\, p_{(j)}\Big)

    whatever the dependence between the tests.

    Args:
        p_values: by name (any key); None where no test was defined, which is no member of the family.

    Returns:
        Adjusted p by name, in the order given, without those that were None.

    Raises:
        ValueError: for a p outside [0, 1].
    """
    known = {name: p for name, p in p_values.items() if p is not None}
    for name, p in known.items():
        if math.isnan(p) or not 0 <= p <= 1:
            raise ValueError(f"{name}: p is {p}, a value in [0, 1] is expected")
    adjusted: dict[K, float] = {}
    running = 0.0
    for position, name in enumerate(sorted(known, key=lambda name: known[name])):
        running = max(running, (len(known) - position) * known[name])
        adjusted[name] = min(1.0, running)
    return {name: adjusted[name] for name in known}


def after_holm(differences: Mapping[K, D]) -> dict[K, D]:
    """The differences, all those looked at together, each with its p ``after Holm``; see ``holm``.

    Those without a p, or with too few seeds to decide, stay as they are and do not count.
    """
    adjusted = holm({name: one.p if one.decides() else None for name, one in differences.items()})
    found = dict(differences)
    for name, p in adjusted.items():
        found[name] = found[name].model_copy(update={"holm": AfterHolm(p=p, comparisons=len(adjusted))})
    return found


def verdict(found: Difference) -> str:
    """Difference, interval, what it was taken over, p, and what follows, in one line.

    ``better`` or ``worse`` only where p, after Holm if the difference was adjusted, is below ``ALPHA``; else
    ``no difference shown``, which is not "equal", or why it cannot be told (over seeds: fewer than three). For
    instance::

        +1.23 (95% interval +0.41 to +2.05) over 5 paired seeds; p = .012 after Holm over 6 comparisons: better
        +0.20 (95% interval -3.70 to +4.10) over 3 paired seeds; p = .846: too few to tell at this spread
    """
    text = _signed(found.difference)
    if found.interval is not None:
        text += f" (95% interval {_signed(found.interval[0])} to {_signed(found.interval[1])})"
    text += f" over {found.over()}"
    p = found.decisive_p()
    if p is not None:
        text += f"; p {_shown(p)}"
    if p is not None and found.holm is not None:
        count = found.holm.comparisons
        text += f" after Holm over {count} comparison{'s' * (count > 1)}"
    return f"{text}: {found.direction() or found.undecided()}"


def brief(found: Difference) -> str:
    """Difference, half its interval (which must be symmetric: over seeds, not over pairs), and p, for a table's cell.

    For instance ``+1.23 ± 0.82 (p = .012)``.
    """
    text = _signed(found.difference)
    if found.interval is not None:
        text += f" ± {(found.interval[1] - found.interval[0]) / 2:.2f}"
    p = found.decisive_p()
    return text if p is None else f"{text} (p {_shown(p)})"


def _signed(points: float) -> str:
    return f"{round(points, 2) + 0.0:+.2f}"  # + 0.0 turns -0.0 into 0.0


def _shown(p: float) -> str:
    if p < LEAST_SHOWN:
        return "< .001"
    digits = 4 if abs(p - ALPHA) < LEAST_SHOWN / 2 else 3  # .0496 is below the level, .050 would not look it
    return f"= {p:.{digits}f}".replace("= 0.", "= .")
