"""Recipes side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

from opencse.analysis.figures.base import AFTER, BEFORE, INK, clean, new_figure, to_svg


def scores_by_recipe(
    panels: Mapping[str, tuple[Mapping[str, Sequence[float]], Mapping[str, float]]], metric: str, baseline: str
) -> str:
    """Every run a dot, each recipe's mean a line with its 95% interval; a panel for each start.

    Args:
        panels: by start: the scores of each recipe, one a seed, and those of the start, by how it is read (a dashed
            line each).
        metric: name of the score.
        baseline: the recipe whose mean is drawn through the panel.
    """
    from opencse.analysis.significance import summary

    rows = max(len(recipes) for recipes, _ in panels.values())
    figure = new_figure(1.6 + 4.4 * len(panels), 1.1 + 0.34 * rows)
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
        for (reading, score), style in zip(own.items(), cycle(("--", ":", "-.")), strict=False):
            place.axvline(score, color=BEFORE, linestyle=style, linewidth=1, label=f"start {reading}")
        if own:
            place.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, 1.0), fontsize=8)
        place.set(title=start, xlabel=metric)
        place.set_yticks(range(len(recipes)), list(recipes))
        clean(place)
    lines = max(len(own) for _, own in panels.values())
    axes[0].set_ylim(rows - 0.5, -1.1 - 0.6 * max(0, lines - 1))  # downwards, with room for the legend
    return to_svg(figure)
