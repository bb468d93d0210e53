"""What happens from layer to layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

from opencse.analysis.figures.base import INK, SERIES, clean, new_figure, to_svg


def by_layer(values: Mapping[str, Sequence[float]], title: str, first: int = 0) -> str:
    """A value by layer, a line a model (SSCL, Fig. 1 and 4).

    Args:
        values: by model, from layer ``first`` on.
        title: what it is.
        first: number of the first layer.
    """
    figure = new_figure(4.4, 2.8)
    axes = figure.subplots()
    for colour, (name, found) in zip(cycle(SERIES), values.items(), strict=False):
        places = range(first, first + len(found))
        axes.plot(places, list(found), color=colour, marker="o", markersize=3.5, linewidth=1.6, label=name)
        axes.set_xticks(places)
    axes.set(xlabel="layer", title=title)
    axes.legend(frameon=False)
    clean(axes)
    return to_svg(figure)


def token_map(tokens: Sequence[str], cosines: Sequence[Sequence[float]], title: str) -> str:
    """The cosine of every token's vector with every other's in one sentence (SSCL, Fig. 5)."""
    size = 1.6 + 0.26 * len(tokens)
    figure = new_figure(size + 0.8, size)
    axes = figure.subplots()
    drawn = axes.imshow([list(row) for row in cosines], cmap="viridis", vmin=0.0, vmax=1.0)
    axes.set_xticks(range(len(tokens)), list(tokens), rotation=60, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(tokens)), list(tokens))
    axes.set_title(title)
    bar = figure.colorbar(drawn, ax=axes, pad=0.02, fraction=0.05)
    bar.ax.tick_params(colors=INK, labelsize=7)
    clean(axes)
    axes.grid(visible=False)
    return to_svg(figure)
