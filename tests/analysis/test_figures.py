"""Figures are SVG elements with their text as text, the same for the same numbers, and take the page's colours."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable

import pytest

from opencse.analysis.figures import (
    before_after,
    bins,
    by_layer,
    densities,
    gold_against_cosine,
    plane,
    quantiles,
    scores_by_recipe,
    spectra,
    themed,
    token_map,
    training_curve,
)

FIGURES: dict[str, tuple[Callable[[], str], tuple[str, ...]]] = {
    "curve": (lambda: training_curve({1: 2.0, 2: 1.0}, {0: 50.0, 2: 60.0}), ("training loss", "kept")),
    "gold": (lambda: gold_against_cosine([1.0, 2.0], {"a": [0.1, 0.2], "b": [0.3, 0.4]}), ("a", "b", "cosine")),
    "recipes": (lambda: scores_by_recipe({"s": ({"x": [1.0, 2.0], "y": [3.0]}, 0.5)}, "sts", "x"), ("x", "y", "s")),
    "spectra": (lambda: spectra({"before": [3.0, 1.0], "after": [2.0, 2.0]}), ("before", "after", "rank")),
    "plane": (
        lambda: plane({"a": (-2.0, 0.2), "b": (-3.0, 0.3)}, {"a": 60.0, "b": 70.0}, {"b": [(-2.0, 0.2), (-3.0, 0.3)]}),
        ("a", "b", "STS average"),
    ),
    "plain plane": (lambda: plane({"a": (-2.0, 0.2)}), ("a",)),
    "layers": (lambda: by_layer({"m": [0.9, 0.8, 0.7]}, "SetSim", first=1), ("m", "SetSim", "3")),
    "tokens": (lambda: token_map(["[CLS]", "word"], [[1.0, 0.5], [0.5, 1.0]], "layer 2"), ("[CLS]", "word", "layer 2")),
    "tasks": (lambda: before_after({"old": {"STS12": 50.0}, "new": {"STS12": 60.0}}), ("STS12", "old", "new")),
    "densities": (
        lambda: densities([0.0, 0.5, 1.0], {"0-1": [0.0, 1.0, 0.0], "4-5": [0.0, 0.5, 2.0]}, "m"),
        ("0-1", "4-5"),
    ),
    "bins": (lambda: bins(["0", "1-3"], {"cosine": [0.5, None]}, "difference"), ("cosine", "1-3")),
    "quantiles": (lambda: quantiles([1.0, 50.0], {"m": [0.1, 0.3]}, 0.4), ("threshold 0.40", "m")),
}


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


def test_the_page_chooses_the_colours() -> None:
    svg = training_curve({1: 2.0, 2: 1.0}, {0: 50.0, 2: 60.0})
    page = themed(svg)
    assert "#0b7285" in svg
    assert "#0b7285" not in page
    assert "var(--after)" in page
    assert "var(--ink)" in page


def test_more_models_than_colours() -> None:
    names = [f"model-{number}" for number in range(11)]
    told = spectra({name: [2.0, 1.0] for name in names})
    assert all(name in told for name in names)
