"""What every figure shares: size, colours, and how it becomes SVG text."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BEFORE, AFTER, INK, THIRD = "#9aa5b1", "#0b7285", "#243b53", "#c05621"
SERIES = (AFTER, THIRD, "#6b46c1", "#2f855a", "#b83280", "#975a16", INK, BEFORE)
"""Colours of models side by side, told apart on white and on black."""
_VARIABLES = {
    BEFORE: "--before",
    AFTER: "--after",
    INK: "--ink",
    THIRD: "--third",
    SERIES[2]: "--series-3",
    SERIES[3]: "--series-4",
    SERIES[4]: "--series-5",
    SERIES[5]: "--series-6",
}
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", flags=re.DOTALL)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of so many inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def clean(axes: Axes) -> None:
    """No box, a faint grid."""
    axes.spines[["top", "right"]].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(INK)
    axes.tick_params(colors=INK, labelsize=8)
    for text in (axes.title, axes.xaxis.label, axes.yaxis.label):
        text.set_color(INK)
        text.set_fontsize(9)
    axes.grid(alpha=0.2)
    legend = axes.get_legend()
    if legend is not None:
        for entry in legend.get_texts():
            entry.set_color(INK)
            entry.set_fontsize(8)


def to_svg(figure: Figure) -> str:
    """The figure as an ``<svg>`` element, its text as text, the same for the same data."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "opencse", "svg.fonttype": "none", "font.family": "sans-serif"}):
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None}, transparent=True)
    text = out.getvalue()
    return _METADATA.sub("", text[text.index("<svg") :])


def standalone(svg: str) -> str:
    """``svg`` as a file of its own: on white, whatever page shows it."""
    return svg.replace("<svg ", '<svg style="background: #ffffff" ', 1) + "\n"


def themed(svg: str) -> str:
    """``svg`` with its colours left to the page (``var(--ink)``), which has a light and a dark set of them."""
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    return svg
