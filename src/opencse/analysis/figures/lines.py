"""Line charts: a value along an axis, one line per model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opencse.analysis.figures.base import AFTER, BEFORE, INK, canvas, coloured, to_svg

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
        dev: the measure by step, that of the start at step 0; if empty, there is one picture.
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
