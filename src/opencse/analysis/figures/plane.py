"""Chart of alignment by uniformity: one point per model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from opencse.analysis.figures.base import BEFORE, INK, add_scale, canvas, coloured, to_svg

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
