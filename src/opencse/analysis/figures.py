"""Figures as SVG text, for a page that needs no other file."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEFORE, AFTER, INK = "#9aa5b1", "#0b7285", "#243b53"


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _svg(figure: Figure) -> str:
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "opencse", "svg.fonttype": "none", "font.family": "sans-serif"}):
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None}, transparent=True)
    text = out.getvalue()
    return text[text.index("<svg") :]


def training_curve(losses: Mapping[int, float], dev: Mapping[int, float]) -> str:
    """Loss and dev score by step, in two panels, the start as a dashed line and the best marked."""
    figure = _figure(8.4, 2.9)
    left, right = figure.subplots(1, 2)
    left.plot(list(losses), list(losses.values()), color=INK, linewidth=1.4)
    left.set(xlabel="step", title="training loss")
    if dev:
        best = max(dev, key=lambda step: dev[step])
        right.plot(list(dev), list(dev.values()), color=AFTER, marker="o", markersize=3, linewidth=1.4)
        right.axhline(dev[min(dev)], color=BEFORE, linestyle="--", linewidth=1, label="start")
        right.plot([best], [dev[best]], marker="*", markersize=12, color=AFTER, linestyle="none", label="kept")
        right.legend(frameon=False, loc="lower right")
    right.set(xlabel="step", title="dev pairs, Spearman x 100")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.2)
    return _svg(figure)


def gold_against_cosine(gold: Sequence[float], cosines: Mapping[str, Sequence[float]]) -> str:
    """Cosine of each held-out pair against its gold score, a panel for each encoder, by its name."""
    figure = _figure(8.4, 3.2)
    panels = figure.subplots(1, len(cosines), sharey=True, squeeze=False)[0]
    for number, (axes, (name, values)) in enumerate(zip(panels, cosines.items(), strict=True)):
        axes.scatter(gold, values, s=14, alpha=0.7, color=AFTER if number else BEFORE, edgecolors="none")
        axes.set(title=name, xlabel="gold score")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.2)
    panels[0].set_ylabel("cosine")
    return _svg(figure)


def scores_by_recipe(
    panels: Mapping[str, tuple[Mapping[str, Sequence[float]], float | None]], metric: str, baseline: str
) -> str:
    """Every run a dot, each recipe's mean a line with its 95% interval; a panel for each start.

    Args:
        panels: by start: the scores of each recipe, one a seed, and the start's own (a dashed line) if known.
        metric: name of the score.
        baseline: the recipe whose mean is drawn through the panel.
    """
    from opencse.analysis.significance import summary

    rows = max(len(recipes) for recipes, _ in panels.values())
    figure = _figure(1.6 + 4.4 * len(panels), 1.1 + 0.34 * rows)
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for place, (start, (recipes, own)) in zip(axes, panels.items(), strict=True):
        for row, (recipe, scores) in enumerate(recipes.items()):
            found = summary(scores)
            colour = INK if recipe == baseline else AFTER
            place.plot(scores, [row] * len(scores), "o", color=colour, alpha=0.35, markersize=4, markeredgewidth=0)
            if found.interval is not None:
                place.plot(found.interval, [row, row], color=colour, linewidth=1.6)
            place.plot([found.mean], [row], "|", color=colour, markersize=12, markeredgewidth=2.2)
            if recipe == baseline:
                place.axvline(found.mean, color=INK, linewidth=0.7, alpha=0.6)
        if own is not None:
            place.axvline(own, color=BEFORE, linestyle="--", linewidth=1, label="start as given")
            place.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, 1.0), fontsize=8)
        place.set(title=start, xlabel=metric)
        place.set_yticks(range(len(recipes)), list(recipes))
        place.spines[["top", "right"]].set_visible(False)
        place.grid(alpha=0.2)
    axes[0].invert_yaxis()
    return _svg(figure)
