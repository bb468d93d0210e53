"""Pictures of a grid of settings: a curve over the values of one, a heat map over those of two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opencse.analysis.figures.base import INK, add_scale, canvas, coloured, new_figure, to_svg


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
