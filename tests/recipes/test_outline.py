"""What the list of recipes shows is what the recipes say."""

from __future__ import annotations

from opencse.recipes.outline import FAMILIES, Outline, outlines
from opencse.recipes.recipe import load_recipe
from opencse.recipes.recipe_files import recipe_names


def test_an_outline_has_the_values_of_the_recipe() -> None:
    for name, outline in outlines().items():
        recipe = load_recipe(name)
        assert outline == Outline(str(recipe.family), recipe.title, recipe.paper, recipe.presets)
        assert outline.family in FAMILIES
    assert list(outlines()) == recipe_names()
