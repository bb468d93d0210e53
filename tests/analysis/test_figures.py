"""Figures are SVG elements with their text as text, the same for the same numbers, in the page's colours."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable

import pytest

from opencse.analysis.figures import (
    before_after,
    bins,
    by_layer,
    curves,
    densities,
    gold_against_cosine,
    plane,
    quantiles,
    scores_by_recipe,
    spectra,
    token_map,
    training_curves,
)

FIGURES: dict[str, tuple[Callable[[], str], tuple[str, ...]]] = {
    "curve": (lambda: curves({"a": {1: 2.0, 2: 1.0}}, "loss"), ("loss by step", "step", "a")),
    "loss": (lambda: training_curves({1: 2.0, 2: 1.0}, {0: 50.0, 2: 60.0})[0], ("training loss by step", "loss")),
    "dev": (lambda: training_curves({1: 2.0}, {0: 50.0, 2: 60.0}, "nDCG")[1], ("nDCG by step", "start", "kept")),
    "gold": (lambda: gold_against_cosine([1.0, 2.0], {"a": [0.1, 0.2], "b": [0.3, 0.4]})[1], ("b: cosine by gold",)),
    "recipes": (
        lambda: scores_by_recipe({"s": ({"x": [1.0, 2.0], "y": [3.0]}, {"as given": 0.5})}, "sts", "x"),
        ("x", "y", "s"),
    ),
    "spectra": (
        lambda: spectra({"before": [3.0, 1.0], "after": [2.0, 2.0]}),
        ("before", "singular values by rank"),
    ),
    "plane": (
        lambda: plane({"a": (-2.0, 0.2), "b": (-3.0, 0.3)}, {"a": 60.0, "b": 70.0}, {"b": [(-2.0, 0.2), (-3.0, 0.3)]}),
        ("a", "b", "STS average"),
    ),
    "plain plane": (lambda: plane({"a": (-2.0, 0.2)}), ("a",)),
    "layers": (lambda: by_layer({"m": [0.9, 0.8, 0.7]}, "SetSim"), ("m", "SetSim by layer", "2")),
    "tokens": (lambda: token_map(["[CLS]", "word"], [[1.0, 0.5], [0.5, 1.0]], "layer 2"), ("[CLS]", "word", "layer 2")),
    "tasks": (lambda: before_after({"old": {"STS12": 50.0}, "new": {"STS12": 60.0}}), ("STS12", "old", "new")),
    "densities": (
        lambda: densities([0.0, 0.5, 1.0], {"m": {"0-1": [0.0, 1.0, 0.0], "4-5": [0.0, 0.5, 2.0]}})[0],
        ("0-1", "4-5"),
    ),
    "bins": (
        lambda: bins(["0", "1-3"], {"cosine": [0.5, None]}, "difference"),
        ("1-3", "mean cosine by difference"),
    ),
    "quantiles": (lambda: quantiles([1.0, 50.0], {"m": [0.1, 0.3]}), ("% of random pairs", "m")),
}


@pytest.mark.drawn
@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_a_figure(name: str) -> None:
    make, texts = FIGURES[name]
    svg = make()
    root = ElementTree.fromstring(svg)
    assert root.tag.endswith("svg")
    told = "".join(root.itertext())
    for text in texts:
        assert text in told
    assert make() == svg
    assert 'href="http' not in svg.replace("http://www.w3.org", "")
    drawn = ["".join(one.itertext()) for one in root.iter() if one.tag.endswith("}text")]
    assert [text for text in drawn if re.search(r"[$^{}]|mathdefault", text)] == [], "matplotlib's own formulas"
