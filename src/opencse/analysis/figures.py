"""Figures as SVG text, for pages that need no other file; every function takes plain numbers."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, pairwise
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


def value_curves(values: Sequence[str], scores: Mapping[str, Sequence[Sequence[float]]], key: str, metric: str) -> str:
    """Draws each series' mean over the values of one setting, its 95% interval, and every score as a dot.

    Args:
        values: of the setting, in their order across.
        scores: by series: for each value, one score for each seed.
        key: the setting.
        metric: name of the score.
    """
    from opencse.statistics import summary

    figure, axes = canvas(f"{metric} by {key}", key, metric)
    for colour, name, by_value in coloured(scores):
        statistics = [summary(one) for one in by_value]
        axes.plot(range(len(values)), [one.mean for one in statistics], color=colour, linewidth=1.6, label=name)
        for position, (one, runs) in enumerate(zip(statistics, by_value, strict=True)):
            axes.plot([position] * len(runs), runs, "o", color=colour, alpha=0.35, markersize=4, markeredgewidth=0)
            if one.interval is not None:
                axes.plot([position, position], one.interval, color=colour, linewidth=1.2, alpha=0.7)
    axes.set_xticks(range(len(values)), list(values))
    return to_svg(figure)


def heat_maps(
    across: tuple[str, Sequence[str]],
    down: tuple[str, Sequence[str]],
    means: Mapping[str, Sequence[Sequence[float]]],
    metric: str,
) -> str:
    """Draws the mean score of each pair of values as a coloured field with its number; one panel per series.

    Args:
        across: one setting and its values.
        down: the other and its values.
        means: by series: a row for each value of ``down``.
        metric: name of the score.
    """
    (x_key, x_values), (y_key, y_values) = across, down
    figure = new_figure(1.6 + (1.0 + 0.7 * len(x_values)) * len(means), 1.3 + 0.45 * len(y_values))
    panels = figure.subplots(1, len(means), squeeze=False, sharey=True)[0]
    every = [score for table in means.values() for row in table for score in row]
    low, high = min(every), max(every)
    for panel, (name, table) in zip(panels, means.items(), strict=True):
        image = panel.imshow(table, cmap="YlGnBu", vmin=low, vmax=high, aspect="auto")
        for row, scores in enumerate(table):
            for column, score in enumerate(scores):
                dark = score > low + 0.6 * (high - low)
                colour = "#ffffff" if dark else INK
                panel.text(column, row, f"{score:.2f}", ha="center", va="center", fontsize=8, color=colour)
        panel.set(title=f"{metric}, {name}", xlabel=x_key)
        panel.set_xticks(range(len(x_values)), list(x_values))
        panel.set_yticks(range(len(y_values)), list(y_values))
    panels[0].set_ylabel(y_key)
    add_scale(figure, panels[-1], image, metric)
    return to_svg(figure)


Points = Sequence[tuple[float, float]]
"""(across, up)."""
_FEW = 30
"""Points of a loss curve below which each is marked."""


def lines(
    values: Mapping[str, Points],
    title: str,
    xlabel: str,
    ylabel: str,
    *,
    ticks: Sequence[str] = (),
    dots: bool = True,
    yscale: str = "linear",
) -> str:
    """Draws one line per name.

    Args:
        values: by name.
        title: what is on the axes.
        xlabel: across.
        ylabel: up.
        ticks: names of the positions 0, 1, ... across; by default numbers.
        dots: mark the points.
        yscale: ``linear`` or ``log``.
    """
    figure, axes = canvas(title, xlabel, ylabel)
    for colour, name, points in coloured(values):
        across, up = [x for x, _ in points], [y for _, y in points]
        axes.plot(across, up, color=colour, marker="o" if dots else "", markersize=3.5, linewidth=1.6, label=name)
    if ticks:
        axes.set_xticks(range(len(ticks)), list(ticks))
    axes.set_yscale(yscale)
    return to_svg(figure)


def spectra(values: Mapping[str, Sequence[float]]) -> str:
    """Draws singular values by rank, each model's divided by its largest, falling (SimCSE, Fig. F.1)."""
    falling = {
        name: [(rank, max(value / max(singular[0], 1e-30), 1e-6)) for rank, value in enumerate(singular, start=1)]
        for name, singular in values.items()
    }
    return lines(falling, "singular values by rank", "rank", "singular value / largest", dots=False, yscale="log")


def by_layer(values: Mapping[str, Sequence[float]], measure: str) -> str:
    """Draws a measure by layer, from layer 0 on, one line per model (SSCL, Fig. 1 and 4)."""
    points = {name: list(enumerate(by_number)) for name, by_number in values.items()}
    layers = [str(layer) for layer in range(max(map(len, values.values())))]
    return lines(points, f"{measure} by layer", "layer", "mean cosine", ticks=layers)


def bins(labels: Sequence[str], values: Mapping[str, Sequence[float | None]], trait: str) -> str:
    """Draws the mean cosine by bin of a trait, one line per model; bins without pairs have no point."""
    filled = {
        name: [(number, value) for number, value in enumerate(means) if value is not None]
        for name, means in values.items()
    }
    return lines(filled, f"mean cosine by {trait}", trait, "mean cosine", ticks=labels)


def quantiles(percents: Sequence[float], cosines: Mapping[str, Sequence[float]]) -> str:
    """Draws the share of random pairs below each cosine, one line per model."""
    points = {name: list(zip(model_cosines, percents, strict=True)) for name, model_cosines in cosines.items()}
    return lines(points, "share of random pairs below each cosine", "cosine", "% of random pairs")


def curves(values: Mapping[str, Mapping[int, float]], measure: str) -> str:
    """Draws a measure by training step, one line per name."""
    points = {name: list(by_step.items()) for name, by_step in values.items()}
    return lines(points, f"{measure} by step", "step", measure, dots=False)


def training_curves(losses: Mapping[int, float], dev: Mapping[int, float], measure: str = "dev score") -> list[str]:
    """Draws two pictures by step: the loss; and the measure of selection, with the start as a dashed line.

    Args:
        losses: by step; steps of a smaller batch have fewer negatives and a lower loss, and are best left out.
        dev: the measure by step, the start's at step 0; if empty, there is one picture.
        measure: name of the measure of selection.
    """
    figure, axes = canvas("training loss by step", "step", "loss")
    marker = "o" if len(losses) < _FEW else None  # a line through one point cannot be seen
    axes.plot(list(losses), list(losses.values()), color=INK, marker=marker, markersize=3, linewidth=1.4)
    pictures = [to_svg(figure)]
    if dev:
        best = max(dev, key=lambda step: dev[step])
        figure, axes = canvas(f"{measure} by step", "step", measure)
        axes.plot(list(dev), list(dev.values()), color=AFTER, marker="o", markersize=3, linewidth=1.4)
        axes.axhline(dev[min(dev)], color=BEFORE, linestyle="--", linewidth=1, label="start")
        axes.plot([best], [dev[best]], marker="*", markersize=12, color=AFTER, linestyle="none", label="kept")
        pictures.append(to_svg(figure, {"loc": "lower right"}))
    return pictures


def gold_against_cosine(gold: Sequence[float], cosines: Mapping[str, Sequence[float]]) -> list[str]:
    """Draws the cosine of each pair by its gold score, one picture per encoder, all on one scale."""
    all_cosines = [value for values in cosines.values() for value in values]
    margin = 0.05 * (max(all_cosines) - min(all_cosines))
    pictures = []
    for number, (name, values) in enumerate(cosines.items()):
        figure, axes = canvas(f"{name}: cosine by gold score", "gold score", "cosine")
        axes.scatter(gold, values, s=14, alpha=0.7, color=AFTER if number else BEFORE, edgecolors="none")
        axes.set_ylim(min(all_cosines) - margin, max(all_cosines) + margin)
        pictures.append(to_svg(figure))
    return pictures


def densities(grid: Sequence[float], models: Mapping[str, Mapping[str, Sequence[float]]]) -> list[str]:
    """Draws the density of the cosine in each group of gold scores, one above the other (SimCSE, Fig. G.1).

    Args:
        grid: cosines.
        models: by name: by gold scores (lowest first), a group's density at each point of the grid. All pictures have
            the same axis of cosines.
    """
    highest = {name: max(map(max, groups.values()), default=0.0) or 1.0 for name, groups in models.items()}
    curves = [(values, highest[name]) for name, groups in models.items() for values in groups.values()]
    shown = [x for values, most in curves for x, value in zip(grid, values, strict=True) if value > 0.01 * most]
    pictures = []
    for name, groups in models.items():
        title = f"{name}: density of the cosine by gold score"
        figure, axes = canvas(title, "cosine", "gold score", height=0.8 + 0.5 * len(groups))
        for row, values in enumerate(groups.values()):
            top = [row + 1.5 * value / highest[name] for value in values]
            axes.fill_between(list(grid), row, top, color=AFTER, alpha=0.35, zorder=len(groups) - row)
            axes.plot(list(grid), top, color=AFTER, linewidth=1.2, zorder=len(groups) - row)
        axes.set_xlim(min(shown, default=-1), max(shown, default=1))
        axes.set_yticks(range(len(groups)), list(groups))
        pictures.append(to_svg(figure))
    return pictures


def token_map(tokens: Sequence[str], cosines: Sequence[Sequence[float]], title: str) -> str:
    """Draws the cosine of every token's vector with every other's in one sentence (SSCL, Fig. 5)."""
    size = 1.6 + 0.26 * len(tokens)
    figure, axes = canvas(title, "token", "token", width=size + 0.8, height=size)
    image = axes.imshow([list(row) for row in cosines], cmap="viridis", vmin=0.0, vmax=1.0)
    axes.set_xticks(range(len(tokens)), list(tokens), rotation=60, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(tokens)), list(tokens))
    add_scale(figure, axes, image, "cosine", share=0.05)
    return to_svg(figure)


Box = tuple[float, float, float, float]
"""Left, right, bottom, top."""
LETTER, LINE, DOT = 5.0, 9.5, 4.0
"""Width of a letter and height of a line of a name, and half the width of a dot, in points, roughly."""
OFFSETS = [(side * 6.0, LINE * lines) for lines in (0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.5, -3.5) for side in (1, -1)]
"""Offsets of a name from its point, the preferred ones first."""


def plane(
    points: Mapping[str, tuple[float, float]],
    scores: Mapping[str, float] | None = None,
    paths: Mapping[str, Sequence[tuple[float, float]]] | None = None,
) -> str:
    """Draws uniformity across and alignment up, both better towards the lower left (SimCSE, Fig. 2 and 3).

    Args:
        points: (uniformity, alignment) of each model.
        scores: STS of the models, shown as colours; without them all have one colour.
        paths: the points of a training run, from its start on, joined by arrows.
    """
    figure, axes = canvas(
        "alignment by uniformity", "uniformity (lower is better)", "alignment (lower is better)", width=4.8, height=3.6
    )
    for colour, name, path in coloured(paths or {}):
        axes.plot([x for x, _ in path], [y for _, y in path], color=colour, linewidth=1, alpha=0.7, label=name)
        for (x0, y0), (x1, y1) in pairwise(path):
            arrow = {"arrowstyle": "->", "color": colour, "alpha": 0.7, "linewidth": 1}
            axes.annotate("", ((x0 + x1) / 2, (y0 + y1) / 2), (x0, y0), arrowprops=arrow)
    names = list(points)
    across, up = [points[name][0] for name in names], [points[name][1] for name in names]
    if scores:
        known = [scores.get(name) for name in names]
        values = [value if value is not None else min(scores.values()) for value in known]
        points_drawn = axes.scatter(
            across, up, c=values, cmap="viridis", s=60, zorder=3, edgecolors=INK, linewidths=0.6
        )
        add_scale(figure, axes, points_drawn, "STS average")
    else:
        axes.scatter(across, up, color=BEFORE, s=60, zorder=3, edgecolors=INK, linewidths=0.6)
    axes.margins(0.18)
    figure.draw_without_rendering()  # the layout decides where the points are
    positions = (axes.transData.transform(list(zip(across, up, strict=True))) * 72 / figure.dpi).tolist()
    for name, x, y, offset in zip(names, across, up, _label_offsets(names, positions), strict=True):
        side = "left" if offset[0] > 0 else "right"
        axes.annotate(name, (x, y), offset, textcoords="offset points", fontsize=8, color=INK, ha=side, va="center")
    return to_svg(figure)


def _label_offsets(names: Sequence[str], positions: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Places each point's name: the first of ``OFFSETS`` where it covers no point or name, in points.

    Args:
        names: of the points.
        positions: of the points on the figure, in points.
    """
    covered = [(x - DOT, x + DOT, y - DOT, y + DOT) for x, y in positions]
    offsets = []
    for name, (x, y) in zip(names, positions, strict=True):
        boxes = {(dx, dy): _box(name, x + dx, y + dy, leftwards=dx < 0) for dx, dy in OFFSETS}
        free = [offset for offset, box in boxes.items() if not any(_overlap(box, other) for other in covered)]
        offsets.append((free or OFFSETS)[0])
        covered.append(boxes[offsets[-1]])
    return offsets


def _box(name: str, x: float, y: float, *, leftwards: bool) -> Box:
    width = LETTER * len(name)
    left_end = x - width if leftwards else x
    return left_end, left_end + width, y - LINE / 2, y + LINE / 2


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


def before_after(scores: Mapping[str, Mapping[str, float]]) -> str:
    """Draws one row per task and one dot per model; a line joins the first two models.

    Args:
        scores: by model, then by task; the tasks of the first model are shown.
    """
    models = list(scores)
    tasks = list(scores[models[0]])
    figure, axes = canvas("", "Spearman x 100", "task", width=4.8, height=1.1 + 0.3 * len(tasks))
    colours = (BEFORE, AFTER) if len(models) == 2 else cycle(SERIES)
    for row, task in enumerate(tasks):
        pair = [scores[model][task] for model in models[:2] if task in scores[model]]
        if len(pair) == 2:
            axes.plot(pair, [row, row], color=INK, linewidth=1, alpha=0.4, zorder=1)
    for colour, model in zip(colours, models, strict=False):
        rows_of_model = [row for row, task in enumerate(tasks) if task in scores[model]]
        axes.scatter(
            [scores[model][tasks[row]] for row in rows_of_model],
            rows_of_model,
            color=colour,
            s=38,
            label=model,
            zorder=2,
        )
    axes.set_yticks(range(len(tasks)), tasks)
    axes.invert_yaxis()
    figure.suptitle("STS score by task", color=INK, fontsize=9)
    above = (0.5, 1 + 0.6 / len(tasks))
    return to_svg(figure, {"loc": "upper center", "bbox_to_anchor": above, "ncols": min(len(models), 3)})


def scores_by_recipe(
    panels: Mapping[str, tuple[Mapping[str, Sequence[float]], Mapping[str, float]]], metric: str, baseline: str
) -> str:
    """Draws every run as a dot and each recipe's mean as a line with its 95% interval; one panel per start.

    Args:
        panels: by start: the scores of each recipe, one for each seed, and the scores of the start by pooling (dashed
            lines).
        metric: name of the score.
        baseline: the recipe whose mean is drawn through the panel.
    """
    from opencse.statistics import summary

    rows = max(len(recipes) for recipes, _ in panels.values())
    figure = new_figure(1.6 + 4.4 * len(panels), 1.1 + 0.34 * rows)
    axes = figure.subplots(1, len(panels), squeeze=False, sharex=True, sharey=True)[0]
    for panel, (start, (recipes, start_scores)) in zip(axes, panels.items(), strict=True):
        for row, (recipe, scores) in enumerate(recipes.items()):
            statistics = summary(scores)
            colour = INK if recipe == baseline else AFTER
            panel.plot(scores, [row] * len(scores), "o", color=colour, alpha=0.35, markersize=4, markeredgewidth=0)
            if statistics.interval is not None:
                panel.plot(statistics.interval, [row, row], color=colour, linewidth=1.6)
            panel.plot([statistics.mean], [row], "|", color=colour, markersize=12, markeredgewidth=2.2)
            if recipe == baseline:
                panel.axvline(statistics.mean, color=INK, linewidth=0.7, alpha=0.6)
        for (reading, score), style in zip(start_scores.items(), cycle(("--", ":", "-.")), strict=False):
            panel.axvline(score, color=BEFORE, linestyle=style, linewidth=1, label=f"start {reading}")
        panel.set(title=f"{metric} by recipe, from {start}", xlabel=metric)
        panel.set_yticks(range(len(recipes)), list(recipes))
    lines = max(len(start_scores) for _, start_scores in panels.values())
    axes[0].set_ylim(rows - 0.5, -1.1 - 0.6 * max(0, lines - 1))  # downwards, with room for the legend
    return to_svg(figure, {"loc": "upper left", "bbox_to_anchor": (0, 1.0)})
