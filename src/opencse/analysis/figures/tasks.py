"""Scores task by task."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

from opencse.analysis.figures.base import AFTER, BEFORE, INK, SERIES, clean, new_figure, to_svg


def before_after(scores: Mapping[str, Mapping[str, float]]) -> str:
    """A row a task, a dot a model; the first two models are joined by a line.

    Args:
        scores: by model, then by task; the tasks of the first model are shown.
    """
    models = list(scores)
    tasks = list(scores[models[0]])
    figure = new_figure(4.8, 0.9 + 0.3 * len(tasks))
    axes = figure.subplots()
    colours = (BEFORE, AFTER) if len(models) == 2 else cycle(SERIES)
    for row, task in enumerate(tasks):
        pair = [scores[model][task] for model in models[:2] if task in scores[model]]
        if len(pair) == 2:
            axes.plot(pair, [row, row], color=INK, linewidth=1, alpha=0.4, zorder=1)
    for colour, model in zip(colours, models, strict=False):
        places = [row for row, task in enumerate(tasks) if task in scores[model]]
        axes.scatter([scores[model][tasks[row]] for row in places], places, color=colour, s=38, label=model, zorder=2)
    axes.set_yticks(range(len(tasks)), tasks)
    axes.invert_yaxis()
    axes.set_xlabel("Spearman x 100")
    axes.legend(
        frameon=False, loc="upper center", bbox_to_anchor=(0.5, 1 + 0.6 / len(tasks)), ncols=min(len(models), 3)
    )
    clean(axes)
    return to_svg(figure)
