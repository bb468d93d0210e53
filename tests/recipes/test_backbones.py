"""Presets with the name of a backbone have its model and settings."""

from __future__ import annotations

from opencse.recipes.backbones import backbones, completed
from opencse.recipes.recipe import load_recipe
from opencse.recipes.recipe_files import recipe_names


def test_a_preset_with_the_name_of_a_backbone_has_its_model_and_settings() -> None:
    mini = backbones()["opencse-mini"]
    presets = completed({"presets": {"opencse-mini": {"more": {"training.epochs": 3}}, "bert-base": {}}})["presets"]
    assert presets["opencse-mini"]["settings"] == {**mini["settings"], "training.epochs": 3}
    assert presets["bert-base"] == {"model": "google-bert/bert-base-uncased", "settings": {}}


def test_own_settings_replace_the_backbones_and_another_model_is_no_backbone() -> None:
    own = {"settings": {"training.epochs": 2}}
    other = {"model": "mine/model"}
    presets = completed({"presets": {"opencse-mini": own, "bert-base": other, "crop": {"note": "x"}}})["presets"]
    assert presets["opencse-mini"]["settings"] == own["settings"]
    assert presets["bert-base"] == other
    assert presets["crop"] == {"note": "x"}


def test_every_backbone_is_used_by_a_recipe() -> None:
    used = {name for recipe in recipe_names() for name in load_recipe(recipe).presets}
    assert set(backbones()) <= used
