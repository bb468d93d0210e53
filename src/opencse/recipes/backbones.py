"""Backbones by short name: the model that a preset of this name is for, and its usual settings."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

FILE = "backbones.toml"


@cache
def backbones() -> Mapping[str, Mapping[str, Any]]:
    """Reads the file: ``model``, and ``settings`` where it has some, of each backbone by its short name.

    Example:
        >>> backbones()["bert-base"]["model"]
        'google-bert/bert-base-uncased'
    """
    return tomllib.loads((resources.files("opencse") / "recipes" / FILE).read_text(encoding="utf-8"))


def completed(recipe: dict[str, Any]) -> dict[str, Any]:
    """Adds model and settings of the backbone to each preset that has a backbone's name.

    A preset that names another model itself, or that is not a table, is unchanged.

    Args:
        recipe: as read from TOML.
    """
    presets = recipe.get("presets")
    if not isinstance(presets, dict):
        return recipe
    return recipe | {"presets": {name: _completed(name, preset) for name, preset in presets.items()}}


def _completed(name: str, preset: object) -> object:
    backbone = backbones().get(name)
    if backbone is None or not isinstance(preset, dict) or preset.get("model", backbone["model"]) != backbone["model"]:
        return preset
    rest = {key: value for key, value in preset.items() if key != "more"}
    more = preset.get("more", {})
    if not isinstance(more, dict) or not isinstance(rest.get("settings", {}), dict):
        return preset
    return rest | {
        "model": backbone["model"],
        "settings": {**rest.get("settings", backbone.get("settings", {})), **more},
    }
