"""Charts of scores: of models by task, and of runs by recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

from opencse.analysis.figures.base import AFTER, BEFORE, INK, SERIES, canvas, new_figure, to_svg


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
