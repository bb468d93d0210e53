"""What a list of recipes shows of each: its group, title, paper and published scores; read without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from opencse.recipes.presets import Preset, presets_of
from opencse.recipes.recipe_files import read_recipe, recipe_names

Family = Literal[
    "contrast",
    "views",
    "negatives",
    "dimensions",
    "weights",
    "networks",
    "teachers",
    "templates",
    "labels",
    "documents",
]
FAMILIES: Mapping[Family, str] = {
    "contrast": "A sentence and itself: the contrast alone",
    "views": "The positive is another text, or has changed inputs",
    "negatives": "More negatives, or other ones",
    "dimensions": "Losses between the dimensions of the vectors",
    "weights": "Perturbed weights",
    "networks": "A second network reads the vector",
    "teachers": "A frozen encoder teaches",
    "templates": "The text in a template, read at a mask token",
    "labels": "Text with labels",
    "documents": "Your documents, and new starts",
}
"""The groups of the recipes, in the order of the list, with the idea of each."""


@dataclass(frozen=True)
class Outline:
    """What a recipe is, without its settings; the attributes are those of `opencse.recipes.recipe.Recipe`.

    Attributes:
        family: the group that it is listed in.
        title: one line for the user.
        paper: authors, year, title, arXiv number; empty for our own.
        presets: other settings, by name.
    """

    family: str
    title: str
    paper: str
    presets: Mapping[str, Preset]


def outlines() -> dict[str, Outline]:
    """Reads the outlines of the recipes of the package, by name; the parts of their objectives are not loaded.

    Example:
        >>> outlines()["simcse"].title
        'Unsupervised SimCSE: a sentence and itself under another dropout mask'
    """
    return {name: _outline(name) for name in recipe_names()}


def _outline(name: str) -> Outline:
    read = read_recipe(name)
    return Outline(str(read["family"]), str(read["title"]), str(read.get("paper", "")), presets_of(read, name))
