"""Colours, legends and labels that all figures share."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest

from opencse.analysis.figures import by_layer, spectra, standalone, themed, training_curves
from opencse.analysis.figures.base import distinct_ids


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


def test_a_picture_by_itself_is_on_white() -> None:
    svg = standalone(by_layer({"m": [0.9, 0.8]}, "SetSim"))
    assert ElementTree.fromstring(svg).attrib["style"] == "background: #ffffff"


@pytest.mark.slow
def test_more_models_than_colours() -> None:
    names = [f"model-{number}" for number in range(11)]
    told = spectra({name: [2.0, 1.0] for name in names})
    assert all(name in told for name in names)


def test_ids_of_several_pictures_differ() -> None:
    one, two = (distinct_ids(by_layer({"m": [0.9, value]}, "SetSim")) for value in (0.8, 0.7))
    ids = [set(re.findall(r'id="([^"]+)"', svg)) for svg in (one, two)]
    assert ids[0]
    assert not ids[0] & ids[1]
