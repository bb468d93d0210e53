"""Graded pairs: cosine against gold score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

from opencse.analysis.figures.base import AFTER, BEFORE, SERIES, clean, new_figure, to_svg


def gold_against_cosine(gold: Sequence[float], cosines: Mapping[str, Sequence[float]]) -> str:
    """Cosine of each held-out pair against its gold score, a panel for each encoder, by its name."""
    figure = new_figure(8.4, 3.2)
    panels = figure.subplots(1, len(cosines), sharey=True, squeeze=False)[0]
    for number, (axes, (name, values)) in enumerate(zip(panels, cosines.items(), strict=True)):
        axes.scatter(gold, values, s=14, alpha=0.7, color=AFTER if number else BEFORE, edgecolors="none")
        axes.set(title=name, xlabel="gold score")
        clean(axes)
    panels[0].set_ylabel("cosine")
    return to_svg(figure)


def densities(grid: Sequence[float], groups: Mapping[str, Sequence[float]], title: str) -> str:
    """The density of the cosine in each group of gold scores, one above the other (SimCSE, Fig. G.1).

    Args:
        grid: cosines.
        groups: by name (lowest gold first), the density at each place of the grid.
        title: of the figure, for instance the model's name.
    """
    figure = new_figure(4.4, 0.8 + 0.5 * len(groups))
    axes = figure.subplots()
    tallest = max((max(values, default=0.0) for values in groups.values()), default=1.0) or 1.0
    for row, values in enumerate(groups.values()):
        top = [row + 1.5 * value / tallest for value in values]
        axes.fill_between(list(grid), row, top, color=AFTER, alpha=0.35, zorder=len(groups) - row)
        axes.plot(list(grid), top, color=AFTER, linewidth=1.2, zorder=len(groups) - row)
    filled = [x for values in groups.values() for x, value in zip(grid, values, strict=True) if value > 0.01 * tallest]
    if filled:
        axes.set_xlim(min(filled), max(filled))
    axes.set_yticks(range(len(groups)), list(groups))
    axes.set(xlabel="cosine", ylabel="gold score", title=title)
    clean(axes)
    return to_svg(figure)


def bins(labels: Sequence[str], values: Mapping[str, Sequence[float | None]], xlabel: str) -> str:
    """Means by bin, a line a name; bins without pairs are left open."""
    figure = new_figure(4.4, 2.8)
    axes = figure.subplots()
    for colour, (name, found) in zip(cycle(SERIES), values.items(), strict=False):
        filled = [(place, value) for place, value in enumerate(found) if value is not None]
        across, up = [place for place, _ in filled], [value for _, value in filled]
        axes.plot(across, up, color=colour, marker="o", markersize=4, linewidth=1.6, label=name)
    axes.set_xticks(range(len(labels)), list(labels))
    axes.set_xlabel(xlabel)
    axes.legend(frameon=False)
    clean(axes)
    return to_svg(figure)


def quantiles(shares: Sequence[float], cosines: Mapping[str, Sequence[float]], threshold: float | None = None) -> str:
    """The share of random pairs below each cosine, a line a model; a threshold as a dashed line."""
    figure = new_figure(4.4, 2.8)
    axes = figure.subplots()
    for colour, (name, found) in zip(cycle(SERIES), cosines.items(), strict=False):
        axes.plot(list(found), list(shares), color=colour, marker="o", markersize=3.5, linewidth=1.6, label=name)
    if threshold is not None:
        axes.axvline(threshold, color=BEFORE, linestyle="--", linewidth=1, label=f"threshold {threshold:.2f}")
    axes.set(xlabel="cosine", ylabel="% of random pairs below")
    axes.legend(frameon=False)
    clean(axes)
    return to_svg(figure)
