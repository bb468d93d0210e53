"""The common parts of all figures: size, colours, legends, and the conversion to SVG text."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Iterator, Mapping
from itertools import cycle
from typing import TYPE_CHECKING, TypeVar
from xml.sax.saxutils import escape
from zlib import crc32

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

T = TypeVar("T")

BEFORE, AFTER, INK, THIRD = "#9aa5b1", "#0b7285", "#243b53", "#c05621"
SERIES = (AFTER, THIRD, "#6b46c1", "#2f855a", "#b83280", "#975a16", INK, BEFORE)
"""Colours of models next to each other, distinct on white and on black."""
_NAMES = ("--after", "--third", "--series-3", "--series-4", "--series-5", "--series-6", "--ink", "--before")
_COLORBAR = "<colorbar>"  # the label that matplotlib gives their axes
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", flags=re.DOTALL)
_GROUP = re.compile(r'<g id="[^"]*"')  # nothing refers to groups, and a page has many pictures


def canvas(title: str, xlabel: str, ylabel: str, *, width: float = 4.4, height: float = 2.8) -> tuple[Figure, Axes]:
    """Makes an empty figure of this size in inches, and its axes with their labels."""
    figure = new_figure(width, height)
    axes = figure.subplots()
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    return figure, axes


def new_figure(width: float, height: float) -> Figure:
    """Makes an empty figure of this size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def coloured(values: Mapping[str, T]) -> Iterator[tuple[str, str, T]]:
    """Yields (colour, name, value) of each model; after ``SERIES`` the colours repeat."""
    for colour, (name, value) in zip(cycle(SERIES), values.items(), strict=False):
        yield colour, name, value


def add_scale(figure: Figure, axes: Axes, mappable: ScalarMappable, label: str, share: float = 0.15) -> None:
    """Adds a colour scale next to ``axes``, in this share of their space."""
    bar = figure.colorbar(mappable, ax=axes, pad=0.02, fraction=share)
    bar.set_label(label, color=INK, fontsize=8)
    bar.ax.tick_params(colors=INK, labelsize=7)


def to_svg(figure: Figure, legend: Mapping[str, object] | None = None) -> str:
    """Writes the figure as an ``<svg>`` element, its text as text, the same for the same data.

    What was drawn with a label is listed in a legend, with the options ``legend`` of matplotlib.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.text import Text

    for axes in figure.axes:
        if axes.get_label() != _COLORBAR:
            _clean(axes, legend or {})
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        text.set_parse_math(False)  # tokens and names may hold dollar signs
    settings = mpl.rc_context({"svg.hashsalt": "opencse", "svg.fonttype": "none", "font.family": "sans-serif"})
    with settings, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # the reader's own font draws them
        warnings.filterwarnings("ignore", message="Creating legend with")  # said of a busy machine, not of the figure
        out = io.StringIO()
        FigureCanvasSVG(figure)  # texts are as wide as in the file
        figure.set_dpi(72)
        layout = figure.get_layout_engine()
        assert layout is not None
        layout.execute(figure)
        figure.set_layout_engine(None)  # else all is drawn once more in order to be laid out
        figure.savefig(out, format="svg", metadata={"Date": None}, transparent=True)
    svg = out.getvalue()
    title = escape(next((axes.get_title() for axes in figure.axes if axes.get_title()), "picture"), {'"': "&quot;"})
    compact = _METADATA.sub("", svg[svg.index("<svg") :]).replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1)
    return _GROUP.sub("<g", compact)


def standalone(svg: str) -> str:
    """Makes ``svg`` a separate file: on white, whatever page shows it."""
    return svg.replace("<svg ", '<svg style="background: #ffffff" ', 1) + "\n"


def themed(svg: str) -> str:
    """Replaces the colours of ``svg`` by variables (``var(--ink)``), so that a page sets them for light and dark."""
    for colour, name in zip(SERIES, _NAMES, strict=True):
        svg = svg.replace(colour, f"var({name})")
    return svg


def distinct_ids(svg: str) -> str:
    """Makes the ids in ``svg`` unique, so that a page may hold several pictures."""
    prefix = f"p{crc32(svg.encode()):08x}-"
    return re.sub(r'(\bid="|href="#|url\(#)', lambda match: match[1] + prefix, svg)


def _clean(axes: Axes, legend: Mapping[str, object]) -> None:
    """Styles the axes: no box, a faint grid (except over an image), all in one colour."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    axes.tick_params(colors=INK, labelsize=8)
    for text in (axes.title, axes.xaxis.label, axes.yaxis.label):
        text.set_color(INK)
        text.set_fontsize(9)
    if not axes.images:
        axes.grid(alpha=0.2)
    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_scale() == "log":
            _label_powers(axis)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(**{"frameon": False, "fontsize": 8, "labelcolor": INK, **legend})


def _label_powers(axis: Axis) -> None:
    """Labels a logarithmic axis in plain text, since matplotlib's own labels are formulas and formulas are off."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    low, high = axis.get_view_interval()
    decades = FuncFormatter(lambda value, _: power_of_ten(value))
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    wide = high >= 100 * low
    axis.set_major_formatter(decades if wide else plain)
    axis.set_minor_formatter(NullFormatter() if wide else plain)


def power_of_ten(value: float) -> str:
    """Returns a value as a power of ten, or as it is where it is none.

    Example:
        >>> power_of_ten(1e-6), power_of_ten(1.0), power_of_ten(250.0)
        ('10⁻⁶', '1', '250')
    """
    exponent = math.log10(value) if value > 0 else math.nan
    if not exponent or not math.isclose(exponent, round(exponent), abs_tol=1e-9):
        return f"{value:g}"
    return "10" + str(round(exponent)).translate(_SUPERSCRIPTS)
