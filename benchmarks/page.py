"""The table of speeds on its page, and its picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rows import HEADER, Row

from opencse.analysis.figures.base import AFTER, BEFORE, INK, canvas, standalone, to_svg

BEGIN, END = "<!-- measured -->", "<!-- /measured -->"


def fill(page: Path, rows: Sequence[Row], machine: str) -> None:
    """Puts the table between the two marks of ``page``, in place of what stood there."""
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    table = "\n".join([HEADER, *(row.line() for row in rows)])
    page.write_text(f"{before}{BEGIN}\n\n{table}\n\n{machine}.\n\n{END}{rest.split(END)[1]}", encoding="utf-8")


def drawn(rows: Sequence[Row]) -> str:
    """A bar for each row: how many times as fast as the peer, with the middle half of the turns.

    Starts are left out: an import is no peer's work.
    """
    rows = [row for row in rows if row.unit != "starts/s"]
    figure, axes = canvas("opencse beside its peers", "times as fast", "", width=11, height=0.5 + 0.3 * len(rows))
    for place, row in enumerate(reversed(rows)):
        axes.barh(place, row.ratio, 0.6, color=AFTER)
        axes.plot([row.low, row.high], [place, place], color=INK, linewidth=1)
        axes.annotate(f" {row.ratio:.2f}", (max(row.ratio, row.high), place), va="center", fontsize=7, color=INK)
    axes.axvline(1, color=BEFORE, linewidth=1)
    axes.set_yticks(range(len(rows)), [row.name for row in reversed(rows)], fontsize=7)
    axes.margins(x=0.1)
    return standalone(to_svg(figure))
