"""The recipe and the presets that adapting names exist."""

from __future__ import annotations

from opencse.adapting.preset_names import ASKED, DOUBLED, LOOSE, RECIPE, WHOLE
from opencse.recipes.presets import presets_of
from opencse.recipes.recipe_files import read_recipe


def test_each_name_is_a_preset_of_the_recipe() -> None:
    assert presets_of(read_recipe(RECIPE), RECIPE).keys() >= {ASKED, DOUBLED, LOOSE, WHOLE}
