"""Recipes in a few words, their differences, and which settings make another run."""

from __future__ import annotations

from typing import Any

import pytest

from opencse.recipes.files import FAMILIES, presets_of, read_recipe, recipe_names
from opencse.recipes.recipe import OtherSetting, load_recipe, other_setting
from opencse.recipes.summary import SettingDifference, differences
from opencse.training.settings import TrainingSettings


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


def test_the_list_shows_the_values_of_the_recipe() -> None:
    for name in recipe_names():
        recipe, read = load_recipe(name), read_recipe(name)
        assert (read["family"], read["title"], presets_of(read, name)) == (recipe.family, recipe.title, recipe.presets)
        assert recipe.family in FAMILIES


def settings_of_recipe(name: str, *overrides: str) -> dict[str, Any]:
    return load_recipe(name, overrides=overrides).model_dump(mode="json", exclude={"presets"})


@pytest.mark.parametrize("name", recipe_names()[::9])
def test_every_recipe_is_itself_without_a_setting_of_default_value(name: str) -> None:
    now = settings_of_recipe(name)
    assert other_setting(now, now) is None
    defaults = {
        key for key, value in TrainingSettings().model_dump(mode="json").items() if now["training"][key] == value
    }
    assert len(defaults) > 5
    before = {**now, "training": {key: now["training"][key] for key in now["training"] if key not in defaults}}
    assert other_setting(before, now) is None
    changed = {**now, "training": {**now["training"], "log_every": 7}}
    assert other_setting(before, changed) == OtherSetting("training.log_every", now["training"]["log_every"], 7)


def test_what_only_describes_a_recipe_may_differ() -> None:
    now = settings_of_recipe("simcse")
    assert other_setting({**now, "title": "", "paper": "", "family": None, "seeds": []}, now) is None
    assert other_setting({key: now[key] for key in now if key != "family"}, now) is None


def test_a_setting_that_this_version_does_not_know_is_another_one() -> None:
    now = settings_of_recipe("simcse")
    before = {**now, "training": {**now["training"], "removed": 1}}
    del before["training"]["patience"]
    assert other_setting(before, now) == OtherSetting("training.removed", 1, None)
