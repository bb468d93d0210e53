"""Figures as SVG text, for pages that need no other file; every one takes plain numbers."""

from opencse.analysis.figures.base import standalone, themed
from opencse.analysis.figures.comparison import scores_by_recipe
from opencse.analysis.figures.geometry import plane, spectra
from opencse.analysis.figures.layers import by_layer, token_map
from opencse.analysis.figures.pairs import bins, densities, gold_against_cosine, quantiles
from opencse.analysis.figures.tasks import before_after
from opencse.analysis.figures.training import training_curve

__all__ = [
    "before_after",
    "bins",
    "by_layer",
    "densities",
    "gold_against_cosine",
    "plane",
    "quantiles",
    "scores_by_recipe",
    "spectra",
    "standalone",
    "themed",
    "token_map",
    "training_curve",
]
