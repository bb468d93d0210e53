"""Finds the file of a recipe by the recipe's name or path, and reads it."""

from __future__ import annotations

import re
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from opencse.errors import UserError, nearest, reason
from opencse.home import in_home
from opencse.recipes.backbones import FILE


def recipe_names() -> list[str]:
    """Returns the names of the recipes in the package.

    Example:
        >>> "simcse" in recipe_names()
        True
    """
    folder = resources.files("opencse") / "recipes"
    files = [f.name for f in folder.iterdir() if f.name.endswith(".toml") and f.name != FILE]
    return sorted(name.removesuffix(".toml") for name in files)


def split_name(name: str) -> tuple[str, list[str]]:
    """Splits ``NAME:PRESET:PRESET`` or ``file.toml:PRESET`` into the recipe and its presets; paths may have colons.

    Example:
        >>> split_name("simcse:bert-base:crop-10")
        ('simcse', ['bert-base', 'crop-10'])

    Raises:
        UserError: if a preset's name is empty.
    """
    name = in_home(name)
    file = re.fullmatch(r"(.*\.toml)((?::[^:/\\]*)*)", name, flags=re.DOTALL)
    if file is not None:
        recipe, suffix = file[1], file[2]
    elif "/" in name or "\\" in name:
        return name, []
    else:
        recipe, colon, rest = name.partition(":")
        suffix = colon + rest
    presets = suffix.split(":")[1:]
    if not all(presets):
        raise UserError(f"{name}: a preset's name is missing after a colon; see opencse recipes presets {recipe}")
    return recipe, presets


def recipe_text(recipe: str) -> str:
    """Reads the TOML of a recipe, by name (without presets) or file.

    Raises:
        UserError: for an unknown name, listing the recipes; or a file that cannot be read.
    """
    if recipe.endswith(".toml"):
        path = Path(recipe)
        try:
            return path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise UserError(f"{recipe}: no such recipe file") from None
        except UnicodeDecodeError:
            raise UserError(f"{recipe}: is not UTF-8 text; a recipe is a TOML file in UTF-8") from None
        except (OSError, ValueError) as error:
            raise UserError(f"{recipe}: cannot be read ({reason(error)})") from None
    names = recipe_names()
    if recipe not in names:
        raise UserError(f"unknown recipe {recipe!r}{nearest(recipe, names)}; opencse recipes lists them")
    return (resources.files("opencse") / "recipes" / f"{recipe}.toml").read_text(encoding="utf-8")


def read_recipe(recipe: str) -> dict[str, Any]:
    """Reads the TOML of a recipe, by name (without presets) or file, as plain values.

    Example:
        >>> read_recipe("simcse")["family"]
        'contrast'

    Raises:
        UserError: see `recipe_text`; and for a file that is not TOML.
    """
    try:
        return tomllib.loads(recipe_text(recipe))
    except (ValueError, RecursionError) as error:  # ValueError: also for a number with too many digits for Python
        raise UserError(f"{recipe}: not valid TOML ({reason(error)})") from None
