"""Reads the tables of a recipe's file, and of the recipe that it is based on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opencse.errors import UserError, nearest, shortened
from opencse.recipes.overrides import Change, flatten, in_order
from opencse.recipes.recipe_files import read_recipe, recipe_names

_ABOUT = ("name", "title", "family", "paper")
_PUBLISHED = ("expected", "note")


@dataclass(frozen=True)
class RecipeTables:
    """What a recipe's file says.

    Attributes:
        before: the recipe before presets, as plain values; of a file with a ``base``, the base's.
        changes: what a file with a ``base`` sets; applied after the presets.
        explicit: dotted keys that a file of the user's sets.
    """

    before: dict[str, Any]
    changes: tuple[Change, ...] = ()
    explicit: frozenset[str] = frozenset()


def recipe_tables(recipe: str) -> RecipeTables:
    """Reads the tables of a recipe, by name (without presets) or file.

    A file may name a recipe of the package as its ``base``: all settings and presets are that recipe's, and what the
    file sets replaces them. The name and the title of a file are its file name unless it gives others. Published scores
    are not taken over from a base, because they are of the base.

    Example:
        >>> recipe_tables("simcse").before["objective"]["temperature"]
        0.05

    Raises:
        UserError: for a file that cannot be read or sets nothing, an unknown base, or a base next to presets.
    """
    read = read_recipe(recipe)
    if not recipe.endswith(".toml"):
        return RecipeTables(read)
    if not read.keys() - _ABOUT and not {"name", "title"} <= read.keys():  # with both, the defaults are meant
        raise UserError(f'{recipe}: has no settings; name a recipe to change (base = "simcse"), or give tables')
    stem = Path(recipe).stem
    about = {"name": read.get("name", stem), "title": read.get("title", stem)}
    explicit = frozenset(flatten({key: value for key, value in read.items() if key != "presets"}))
    if "base" not in read:
        return RecipeTables({**read, **about}, explicit=explicit)
    base, names = read["base"], recipe_names()
    if base not in names:
        near = nearest(str(base), names)
        raise UserError(f"{recipe}: base: no recipe {shortened(repr(base))}{near}; opencse recipes lists them")
    if "presets" in read:
        raise UserError(f"{recipe}: a recipe with a base has the base's presets; remove presets, or base")
    tables = {key: value for key, value in read_recipe(base).items() if key not in _ABOUT}
    presets = {name: _unpublished(preset) for name, preset in tables.get("presets", {}).items()}
    return RecipeTables({**tables, **about, "presets": presets}, tuple(in_order(_changes(recipe, read))), explicit)


def _unpublished(preset: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in preset.items() if key not in _PUBLISHED}


def _changes(recipe: str, read: dict[str, Any]) -> list[Change]:
    """A change for each setting in a table of the file, and for each table or value that is not inside one."""
    changes = []
    for key, value in read.items():
        if key in ("base", "name", "title"):
            continue
        inside = {f"{key}.{inner}": each for inner, each in value.items()} if isinstance(value, dict) else {key: value}
        changes += [Change(recipe, path, each) for path, each in inside.items()]
    return changes
