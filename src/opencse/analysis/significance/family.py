"""Several comparisons at once: the more are made, the likelier one looks good by chance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

from opencse.analysis.significance.comparison import AfterHolm, Comparison

C = TypeVar("C", bound=Comparison)


def holm(p_values: Mapping[str, float | None]) -> dict[str, float]:
    r"""Adjusts p so that a false claim anywhere in the family has at most the level's chance (Holm 1979).

    With the m values in rising order :math:`p_{(1)} \le \dots \le p_{(m)}`,

    .. math:: \tilde p_{(i)} = \min\Big(1, \max_{j \le i}\, (m - j + 1)\, p_{(j)}\Big)

    whatever the dependence between the tests.

    Args:
        p_values: by name; None where no test was defined, which is no member of the family.

    Returns:
        Adjusted p by name, in the order given, without those that were None.

    Raises:
        ValueError: for a p outside [0, 1].
    """
    known = {name: p for name, p in p_values.items() if p is not None}
    for name, p in known.items():
        if math.isnan(p) or not 0 <= p <= 1:
            raise ValueError(f"{name}: p is {p}, a value in [0, 1] is expected")
    adjusted: dict[str, float] = {}
    running = 0.0
    for position, name in enumerate(sorted(known, key=lambda name: known[name])):
        running = max(running, (len(known) - position) * known[name])
        adjusted[name] = min(1.0, running)
    return {name: adjusted[name] for name in known}


def after_holm(comparisons: Mapping[str, C]) -> dict[str, C]:
    """The comparisons, all those looked at together, each with its p ``after Holm``; see ``holm``.

    Those without a p stay as they are and do not count.
    """
    adjusted = holm({name: comparison.p for name, comparison in comparisons.items()})
    return {
        name: comparison.model_copy(update={"holm": AfterHolm(p=adjusted[name], comparisons=len(adjusted))})
        if name in adjusted
        else comparison
        for name, comparison in comparisons.items()
    }
