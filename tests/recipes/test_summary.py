"""Recipes described in a few words, and their differences."""

from __future__ import annotations

import pytest

from opencse.recipes.recipe import load_recipe
from opencse.recipes.summary import SettingDifference, differences, made_of, published, setting_text, short_paper


@pytest.mark.parametrize(
    ("recipe", "parts"),
    [
        ("simcse++", "dropout + in_batch of clean + dcl + mlp head in training"),
        ("sscl-bert", "dropout + positive of anchors + in_batch of anchors + layers -2,-3 + mlp head in training"),
        ("simcse-supervised", "pair + in_batch + hard + mlp head"),
        ("simcse:two-encoders:no-mlp", "dropout + in_batch + two encoders"),
        ("pretrain", "dropout + mlm"),
    ],
)
def test_made_of(recipe: str, parts: str) -> None:
    assert made_of(load_recipe(recipe)) == parts


@pytest.mark.parametrize(
    ("paper", "short"),
    [
        ("Gao, Yao, Chen 2021. SimCSE: Simple. arXiv:1", "Gao et al. 2021"),
        ("Li, Wu 2020. Title.", "Li and Wu 2020"),
        ("Li 2020. Title.", "Li 2020"),
        ("our own; the objective is SimCSE's (Gao 2021. A)", "our own"),
        ("", ""),
    ],
)
def test_short_paper(paper: str, short: str) -> None:
    assert short_paper(paper) == short


def test_published_is_empty_without_a_number() -> None:
    assert published(load_recipe("pretrain").presets) == ""
    assert published(load_recipe("opencse-mini").presets) == ""


class TestDifferences:
    def between(self, a: str, b: str) -> list[SettingDifference]:
        return differences(load_recipe(a), load_recipe(b))

    def test_parts_of_a_kind_are_compared_setting_by_setting(self) -> None:
        assert self.between("simcse++", "simcse++:m-0.5") == [
            SettingDifference("objective.negatives.in_batch.weight", "0.9", "0.5")
        ]
        assert self.between("simcse", "simcse:dropout-0.2") == [SettingDifference("encoder.dropout", "", "0.2")]

    def test_a_part_more_is_one_difference_wherever_it_stands(self) -> None:
        one = load_recipe("simcse-supervised")
        swapped = load_recipe("simcse-supervised", overrides=['objective.negatives=[{kind="hard"},{kind="in_batch"}]'])
        more = load_recipe(
            "simcse-supervised", overrides=['objective.negatives=[{kind="layers"},{kind="hard"},{kind="in_batch"}]']
        )
        assert differences(one, swapped) == []
        (added,) = differences(one, more)
        assert (added.key, added.a) == ("objective.negatives.layers", "")
        assert added.b.startswith("layers(layers=[-2]")
        (removed,) = differences(more, one)
        assert (removed.a, removed.b) == (added.b, "")

    def test_the_second_part_of_a_kind_has_a_number(self) -> None:
        twice = load_recipe("simcse", overrides=['objective.negatives=[{kind="in_batch"},{kind="in_batch",weight=2}]'])
        (added,) = differences(load_recipe("simcse"), twice)
        assert added.key == "objective.negatives.in_batch#2"

    def test_terms_that_come_and_all_negatives_that_go(self) -> None:
        found = {d.key: (d.a, d.b) for d in self.between("simcse", "dcl-post")}
        assert found["objective.negatives.in_batch"][1] == ""
        assert found["objective.terms.dcl"][0] == ""
        assert found["encoder.head"] == ("mlp(keep=false)", "none(keep=false)")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"kind": "pair"}, "pair"),
        ({"kind": "crop", "rate": 0.1, "x": None}, "crop(rate=0.1)"),
        ([1, 2], "[1, 2]"),
        (list(range(20)), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ... 20 in all]"),
        (True, "true"),
        ("mean", "mean"),
        (None, "unset"),
        ({}, "{}"),
    ],
)
def test_shown(value: object, text: str) -> None:
    assert setting_text(value) == text
