"""Charts of the cosines of pairs: of texts, and of the tokens of a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opencse.analysis.figures.base import AFTER, BEFORE, add_scale, canvas, to_svg


def gold_against_cosine(gold: Sequence[float], cosines: Mapping[str, Sequence[float]]) -> list[str]:
    """Draws the cosine of each pair by its gold score, one picture per encoder, all on one scale."""
    all_cosines = [value for values in cosines.values() for value in values]
    margin = 0.05 * (max(all_cosines) - min(all_cosines))
    pictures = []
    for number, (name, values) in enumerate(cosines.items()):
        figure, axes = canvas(f"{name}: cosine by gold score", "gold score", "cosine")
        axes.scatter(gold, values, s=14, alpha=0.7, color=AFTER if number else BEFORE, edgecolors="none")
        axes.set_ylim(min(all_cosines) - margin, max(all_cosines) + margin)
        pictures.append(to_svg(figure))
    return pictures


def densities(grid: Sequence[float], models: Mapping[str, Mapping[str, Sequence[float]]]) -> list[str]:
    """Draws the density of the cosine in each group of gold scores, one above the other (SimCSE, Fig. G.1).

    Args:
        grid: cosines.
        models: by name: by gold scores (lowest first), a group's density at each point of the grid. All pictures have
            the same axis of cosines.
    """
    highest = {name: max(map(max, groups.values()), default=0.0) or 1.0 for name, groups in models.items()}
    curves = [(values, highest[name]) for name, groups in models.items() for values in groups.values()]
    shown = [x for values, most in curves for x, value in zip(grid, values, strict=True) if value > 0.01 * most]
    pictures = []
    for name, groups in models.items():
        title = f"{name}: density of the cosine by gold score"
        figure, axes = canvas(title, "cosine", "gold score", height=0.8 + 0.5 * len(groups))
        for row, values in enumerate(groups.values()):
            top = [row + 1.5 * value / highest[name] for value in values]
            axes.fill_between(list(grid), row, top, color=AFTER, alpha=0.35, zorder=len(groups) - row)
            axes.plot(list(grid), top, color=AFTER, linewidth=1.2, zorder=len(groups) - row)
        axes.set_xlim(min(shown, default=-1), max(shown, default=1))
        axes.set_yticks(range(len(groups)), list(groups))
        pictures.append(to_svg(figure))
    return pictures


def token_map(tokens: Sequence[str], cosines: Sequence[Sequence[float]], title: str) -> str:
    """Draws the cosine of every token's vector with every other's in one sentence (SSCL, Fig. 5)."""
    size = 1.6 + 0.26 * len(tokens)
    figure, axes = canvas(title, "token", "token", width=size + 0.8, height=size)
    image = axes.imshow([list(row) for row in cosines], cmap="viridis", vmin=0.0, vmax=1.0)
    axes.set_xticks(range(len(tokens)), list(tokens), rotation=60, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(tokens)), list(tokens))
    add_scale(figure, axes, image, "cosine", share=0.05)
    return to_svg(figure)
