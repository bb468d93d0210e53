"""The recipes there are, and what they are made of."""

from __future__ import annotations

from collections.abc import Iterable

from opencse.api.declaring import public
from opencse.errors import UserError
from opencse.recipes.recipe import (
    Preset,
    Recipe,
    Resolved,
    load_recipe,
    recipe_names,
    resolve_recipe,
    split_name,
)
from opencse.recipes.summary import Difference, differences


@public
def list_recipes() -> dict[str, Recipe]:
    """The recipes of the package by name, each as its file has it, without a preset."""
    return {name: load_recipe(name) for name in recipe_names()}


@public
def list_presets(recipe: str) -> dict[str, Preset]:
    """A recipe's presets by name: for which backbone or table, what they change, what was published.

    Args:
        recipe: name or TOML file, without presets.

    Raises:
        UserError: if there is no such recipe, or presets are named.
    """
    base, given = split_name(recipe)
    if given:
        raise UserError(f"{recipe}: all presets of a recipe are listed; name the recipe alone, {base}")
    return load_recipe(base).presets


@public
def show_recipe(recipe: str, *, preset: str | None = None, settings: Iterable[str] = ()) -> Resolved:
    """A recipe with presets and settings applied; `opencse.recipes.recipe.to_toml` writes it as a file.

    Args:
        recipe: name or TOML file; presets may follow after colons (``simcse:bert-large:crop-10``).
        preset: more presets, joined by colons.
        settings: ``key.path=value`` each; they come last.

    Raises:
        UserError: if there is no such recipe, preset or setting.
    """
    return resolve_recipe(recipe, preset=preset, overrides=settings)


@public
def diff_recipes(a: str, b: str) -> list[Difference]:
    """The settings in which two recipes differ, presets applied.

    Raises:
        UserError: if there is no such recipe or preset.
    """
    return differences(load_recipe(a), load_recipe(b))
