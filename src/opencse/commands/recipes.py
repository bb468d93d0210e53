"""Lists recipes and presets, shows their settings and the differences between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opencse.commands.declared import command
from opencse.commands.shared import Settings
from opencse.errors import UserError

if TYPE_CHECKING:
    from opencse.recipes.files import Preset
    from opencse.recipes.recipe import Recipe, Resolved
    from opencse.recipes.summary import SettingDifference


@command
def list_recipes() -> dict[str, Recipe]:
    """Lists the recipes of the package by name, each without a preset.

    Example:
        >>> import opencse
        >>> opencse.list_recipes()["simcse"].name
        'simcse'
    """
    from opencse.recipes.files import recipe_names
    from opencse.recipes.recipe import load_recipe

    return {name: load_recipe(name) for name in recipe_names()}


@command
def list_presets(
    recipe: str,
) -> dict[str, Preset]:
    """Lists a recipe's presets by name: for which backbone or table, what they change, the published scores.

    Example:
        >>> import opencse
        >>> opencse.list_presets("simcse")["bert-large"].model
        'google-bert/bert-large-uncased'

    Args:
        recipe: recipe by name or TOML file.

    Raises:
        UserError: if there is no such recipe, or presets are named.
    """
    from opencse.recipes.files import split_name
    from opencse.recipes.recipe import load_recipe

    base, presets = split_name(recipe)
    if presets:
        raise UserError(f"{recipe}: all presets of a recipe are listed; name the recipe alone, {base}")
    return load_recipe(base).presets


@command
def show_recipe(
    recipe: str,
    *,
    preset: str | None = None,
    settings: Settings = (),
) -> Resolved:
    """Shows a recipe with presets and settings applied; `opencse.recipes.recipe.to_toml` writes it as a file.

    Example:
        >>> import opencse
        >>> opencse.show_recipe("simcse:dropout-0.2", settings=["training.epochs=2"]).recipe.encoder.dropout
        0.2

    Args:
        recipe: recipe by name or TOML file; presets follow after colons (simcse:bert-large).
        preset: More presets, joined by colons.

    Raises:
        UserError: if there is no such recipe, preset or setting.
    """
    from opencse.recipes.recipe import resolve_recipe

    return resolve_recipe(recipe, preset=preset, overrides=settings)


@command
def diff_recipes(
    a: str,
    b: str,
) -> list[SettingDifference]:
    """Lists the settings in which two recipes differ, presets applied.

    Example:
        >>> import opencse
        >>> [(one.key, one.a, one.b) for one in opencse.diff_recipes("simcse", "simcse:dropout-0.2")]
        [('encoder.dropout', '', '0.2')]

    Args:
        a: recipe by name or TOML file; presets follow after colons (simcse:bert-large).
        b: the recipe to compare it with, in the same form.

    Raises:
        UserError: if there is no such recipe or preset.
    """
    from opencse.recipes.recipe import load_recipe
    from opencse.recipes.summary import differences

    return differences(load_recipe(a), load_recipe(b))
