"""A comparison in one plain sentence."""

from __future__ import annotations

from opencse.analysis.significance.comparison import ALPHA, Comparison

LEAST_SHOWN = 0.001


def verdict(comparison: Comparison) -> str:
    """Difference, interval, what it was taken over, p, and what follows, in one line.

    ``better`` or ``worse`` only where p, after Holm if the comparison was adjusted, is below ``ALPHA``; else
    ``no difference shown``, which is not "equal", or why it cannot be told. For instance::

        +1.23 (95% interval +0.41 to +2.05) over 5 paired seeds; p = .012 after Holm over 6 comparisons: better
        +0.20 (95% interval -3.70 to +4.10) over 3 paired seeds; p = .846: too few to tell at this spread
    """
    text = _signed(comparison.difference)
    if comparison.interval is not None:
        lower, upper = comparison.interval
        text += f" (95% interval {_signed(lower)} to {_signed(upper)})"
    text += f" over {comparison.over()}"
    p = comparison.p if comparison.holm is None else comparison.holm.p
    if p is not None:
        text += f"; p {_shown(p)}"
    if comparison.holm is not None:
        count = comparison.holm.comparisons
        text += f" after Holm over {count} comparison{'s' * (count > 1)}"
    return f"{text}: {_conclusion(comparison, p)}"


def brief(comparison: Comparison) -> str:
    """Difference, half its interval (which must be symmetric: over seeds, not over pairs), and p, for a table's cell.

    For instance ``+1.23 ± 0.82 (p = .012)``.
    """
    text = _signed(comparison.difference)
    if comparison.interval is not None:
        lower, upper = comparison.interval
        text += f" ± {(upper - lower) / 2:.2f}"
    p = comparison.p if comparison.holm is None else comparison.holm.p
    return text if p is None else f"{text} (p {_shown(p)})"


def _conclusion(comparison: Comparison, p: float | None) -> str:
    if p is None or p >= ALPHA:
        return comparison.undecided()
    return "better" if comparison.difference > 0 else "worse"


def _signed(points: float) -> str:
    return f"{round(points, 2) + 0.0:+.2f}"  # + 0.0 turns -0.0 into 0.0


def _shown(p: float) -> str:
    if p < LEAST_SHOWN:
        return "< .001"
    digits = 4 if abs(p - ALPHA) < LEAST_SHOWN / 2 else 3  # .0496 is below the level, .050 would not look it
    return f"= {p:.{digits}f}".replace("= 0.", "= .")
