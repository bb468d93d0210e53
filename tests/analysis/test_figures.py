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
    heat_maps,
    plane,
    quantiles,
    scores_by_recipe,
    spectra,
    themed,
    token_map,
    training_curves,
    value_curves,
)
from opencse.analysis.figures.base import distinct_ids
from opencse.analysis.figures.plane import DOT, OFFSETS, _box, _label_offsets, _overlap

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


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([1.0, 1e-3, 1e-6], ["10⁻⁶", "10⁻²", "1"]),
        ([1.0, 0.5, 0.3], ["0.3", "0.6", "1"]),
        ([1.0, 1.0], ["1"]),
    ],
)
def test_powers_of_ten_are_read_as_such(values: list[float], labels: list[str]) -> None:
    told = [one.text for one in ElementTree.fromstring(spectra({"m": values})).iter() if one.tag.endswith("}text")]
    assert [label for label in labels if label not in told] == []
    assert not [text for text in told if text and re.search(r"[$^{}]|math", text)]


@pytest.mark.slow
def test_the_page_chooses_the_colours() -> None:
    svg = "".join(training_curves({1: 2.0, 2: 1.0}, {0: 50.0, 2: 60.0}))
    page = themed(svg)
    assert "#0b7285" in svg
    assert "#0b7285" not in page
    assert "var(--after)" in page
    assert "var(--ink)" in page


def test_ids_of_several_pictures_differ() -> None:
    one, two = (distinct_ids(by_layer({"m": [0.9, value]}, "SetSim")) for value in (0.8, 0.7))
    ids = [set(re.findall(r'id="([^"]+)"', svg)) for svg in (one, two)]
    assert ids[0]
    assert not ids[0] & ids[1]


def test_a_curve_has_its_values_and_every_series() -> None:
    scores = {"simcse": [[60.0, 61.0], [62.0, 63.0]], "dcl": [[59.0], [60.5]]}
    picture = value_curves(["64", "128"], scores, "training.batch_size", "sts.average")
    for text in ("sts.average by training.batch_size", "64", "128", "simcse", "dcl"):
        assert f">{text}</text>" in picture
    assert value_curves(["64", "128"], scores, "training.batch_size", "sts.average") == picture
    assert value_curves(["64", "128"], {**scores, "dcl": [[59.0], [70.5]]}, "training.batch_size", "x") != picture


def test_a_heat_map_writes_each_mean_in_its_field() -> None:
    means = {"simcse": [[60.0, 61.25], [62.5, 63.0], [64.0, 65.0]], "dcl": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.5]]}
    picture = heat_maps(("rate", ["1e-5", "3e-5"]), ("batch", ["64", "128", "256"]), means, "sts.average")
    for text in ("60.00", "61.25", "65.00", "6.50", "1e-5", "256", "rate", "batch", "sts.average, dcl"):
        assert f">{text}</text>" in picture


def test_names_in_the_plane_cover_neither_points_nor_each_other() -> None:
    names = ["one model", "another model", "a third", "far away"]
    places = [(100.0, 100.0), (103.0, 101.0), (108.0, 99.0), (300.0, 20.0)]
    offsets = _label_offsets(names, places)
    assert offsets[3] == OFFSETS[0], "where there is room, the first place is taken"
    boxes = [
        _box(name, x + dx, y + dy, leftwards=dx < 0)
        for name, (x, y), (dx, dy) in zip(names, places, offsets, strict=True)
    ]
    dots = [(x - DOT, x + DOT, y - DOT, y + DOT) for x, y in places]
    for number, box in enumerate(boxes):
        assert not any(_overlap(box, other) for other in [*dots, *boxes[:number]])
    crowded = _label_offsets(["the same"] * 40, [(0.0, 0.0)] * 40)
    assert crowded[-1] == OFFSETS[0], "no place is left"


def test_encoders_share_one_scale() -> None:
    pictures = gold_against_cosine([1.0, 5.0], {"a": [0.0, 0.1], "b": [0.5, 1.0]})
    labels = [re.findall(r">(0\.\d|1\.0)<", svg) for svg in pictures]
    assert len(pictures) == 2
    assert labels[0] == labels[1] != []


def test_groups_and_tokens_are_named() -> None:
    models = {"m": {"0-1": [1.0, 0.0, 0.0], "4-5": [0.0, 0.0, 2.0]}, "narrow": {"0-1": [0.0, 1.0, 0.0]}}
    first, second = densities([0.0, 0.5, 1.0], models)
    assert ">0-1<" in first
    assert ">4-5<" in first
    assert set(re.findall(r">(0\.\d|1\.0)<", first)) == set(re.findall(r">(0\.\d|1\.0)<", second)) > {"0.0", "1.0"}
    assert token_map(["x1", "y2"], [[1.0, 0.2], [0.2, 1.0]], "t").count(">x1<") == 2


def test_no_picture_of_what_was_not_measured() -> None:
    assert len(training_curves({1: 2.0}, {})) == 1


def test_dollar_signs_and_letters_without_a_glyph_are_drawn_as_they_are(recwarn: pytest.WarningsRecorder) -> None:
    """A token or the name of a folder may hold what matplotlib would read as a formula."""
    from opencse.analysis.figures.lines import lines

    drawn = lines(
        {"m_$a_$": [(0.0, 1.0), (1.0, 2.0)], "$$": [(0.0, 2.0), (1.0, 1.0)]}, "$x", "pay $$", "猫", ticks=["$$", "$a$"]
    )
    for words in ("m_$a_$", "$x", "pay $$", "$a$"):
        assert f">{words}<" in drawn
    assert not [one for one in recwarn.list if "Glyph" in str(one.message)]
