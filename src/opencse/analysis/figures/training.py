"""The course of a run."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

from opencse.analysis.figures.base import AFTER, BEFORE, INK, SERIES, clean, new_figure, to_svg


def training_curve(losses: Mapping[int, float], dev: Mapping[int, float], measure: str = "dev score") -> str:
    """Loss and what was chosen by, by step, in two panels, the start as a dashed line and the best marked."""
    figure = new_figure(8.4, 2.9)
    left, right = figure.subplots(1, 2)
    left.plot(list(losses), list(losses.values()), color=INK, linewidth=1.4)
    left.set(xlabel="step", title="training loss")
    if dev:
        best = max(dev, key=lambda step: dev[step])
        right.plot(list(dev), list(dev.values()), color=AFTER, marker="o", markersize=3, linewidth=1.4)
        right.axhline(dev[min(dev)], color=BEFORE, linestyle="--", linewidth=1, label="start")
        right.plot([best], [dev[best]], marker="*", markersize=12, color=AFTER, linestyle="none", label="kept")
        right.legend(frameon=False, loc="lower right")
    right.set(xlabel="step", title=measure)
    for axes in (left, right):
        clean(axes)
    return to_svg(figure)


def course(values: Mapping[str, Mapping[int, float]], title: str) -> str:
    """Values along training, a line a name."""
    figure = new_figure(4.4, 2.8)
    axes = figure.subplots()
    for colour, (name, found) in zip(cycle(SERIES), values.items(), strict=False):
        axes.plot(list(found), list(found.values()), color=colour, linewidth=1.5, label=name)
    axes.set(xlabel="step", title=title)
    axes.legend(frameon=False)
    clean(axes)
    return to_svg(figure)
