"""Lists recipes and presets, shows their settings and the differences between them."""

from __future__ import annotations

from typing import Unpack

from opencse.api.declaring import public
from opencse.api.options.recipes import ShowRecipeOptions
from opencse.errors import UserError
from opencse.recipes.presets import Preset
from opencse.recipes.recipe import Recipe, Resolved, load_recipe, resolve_recipe
from opencse.recipes.recipe_files import recipe_names, split_name
from opencse.recipes.summary import SettingDifference, differences


@public
def list_recipes() -> dict[str, Recipe]:
    """Lists the recipes of the package by name, each without a preset.

    Example:
        >>> import opencse
        >>> opencse.list_recipes()["simcse"].name
        'simcse'
    """
    return {name: load_recipe(name) for name in recipe_names()}


@public
def list_presets(recipe: str) -> dict[str, Preset]:
    """Lists a recipe's presets by name: for which backbone or table, what they change, the published scores.

    Example:
        >>> import opencse
        >>> opencse.list_presets("simcse")["bert-large"].model
        'google-bert/bert-large-uncased'

    Args:
        recipe: name or TOML file, without presets.

    Raises:
        UserError: if there is no such recipe, or presets are named.
    """
    base, presets = split_name(recipe)
    if presets:
        raise UserError(f"{recipe}: all presets of a recipe are listed; name the recipe alone, {base}")
    return load_recipe(base).presets


@public
def show_recipe(recipe: str, **options: Unpack[ShowRecipeOptions]) -> Resolved:
    """Shows a recipe with presets and settings applied; `opencse.recipes.recipe.to_toml` writes it as a file.

    Example:
        >>> import opencse
        >>> opencse.show_recipe("simcse:dropout-0.2", settings=["training.epochs=2"]).recipe.encoder.dropout
        0.2

    Args:
        recipe: name or TOML file; presets may follow after colons (``simcse:bert-large:crop-10``).
        **options: see `ShowRecipeOptions`.

    Raises:
        UserError: if there is no such recipe, preset or setting.
    """
    return resolve_recipe(recipe, preset=options["preset"], overrides=options["settings"])


@public
def diff_recipes(a: str, b: str) -> list[SettingDifference]:
    """Lists the settings in which two recipes differ, presets applied.

    Example:
        >>> import opencse
        >>> [(one.key, one.a, one.b) for one in opencse.diff_recipes("simcse", "simcse:dropout-0.2")]
        [('encoder.dropout', '', '0.2')]

    Args:
        a: a recipe's name or TOML file; presets may follow after colons.
        b: another one.

    Raises:
        UserError: if there is no such recipe or preset.
    """
    return differences(load_recipe(a), load_recipe(b))
