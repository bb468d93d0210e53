"""Figures as SVG text, for pages that need no other file; every function takes plain numbers."""

from opencse.analysis.figures.base import standalone, themed
from opencse.analysis.figures.grids import heat_maps, value_curves
from opencse.analysis.figures.lines import bins, by_layer, curves, quantiles, spectra, training_curves
from opencse.analysis.figures.pairs import densities, gold_against_cosine, token_map
from opencse.analysis.figures.plane import plane
from opencse.analysis.figures.scores import before_after, scores_by_recipe

__all__ = [
    "before_after",
    "bins",
    "by_layer",
    "curves",
    "densities",
    "gold_against_cosine",
    "heat_maps",
    "plane",
    "quantiles",
    "scores_by_recipe",
    "spectra",
    "standalone",
    "themed",
    "token_map",
    "training_curves",
    "value_curves",
]
