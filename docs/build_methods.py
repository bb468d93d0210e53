"""Writes docs/methods.md, one row per system, from the recipes and docs/methods.toml: python docs/build_methods.py."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from opencse.recipes.files import FAMILIES, Preset, recipe_names
from opencse.recipes.recipe import Recipe, load_recipe

PAGE = Path(__file__).with_name("methods.md")
TEXTS = PAGE.with_suffix(".toml")
_AVERAGE = "sts.average"
_INTRODUCTION = """# Systems

Written by `python docs/build_methods.py` from the recipes and `docs/methods.toml`.

Each row is a system that you can train with `opencse train TEXT --recipe NAME`. *Published* is the mean of the seven
STS test sets (Spearman, in percent) for BERT-base as the named source prints it; gains measured here are in
[the papers' tables](results/papers.md) and [the whole family](results/family.md). *Paper and code* says where the two
differ; the preset `reference` follows the code where a recipe has one. Settings are
in [Recipes](recipes.md)."""


def page() -> str:
    """The page in Markdown."""
    texts = tomllib.loads(TEXTS.read_text(encoding="utf-8"))
    recipes = [load_recipe(name) for name in recipe_names()]
    parts = [_INTRODUCTION]
    for family, heading in FAMILIES.items():
        rows = [row(recipe, texts["differences"]) for recipe in recipes if recipe.family == family]
        if rows:
            head = ["| system | recipe | what it is | paper and code | published |", "| --- | --- | --- | --- | --- |"]
            parts.append(f"## {heading}\n\n" + "\n".join([*head, *rows]))
    recipe_keys = {key(recipe.name) for recipe in recipes}
    missing = [f"{name} ({why})" for name, why in texts["not_built"].items() if key(name) not in recipe_keys]
    parts.append("## Not built\n\n" + "; ".join(missing) + ".")
    return "\n\n".join(parts) + "\n"


def row(recipe: Recipe, differences: dict[str, str]) -> str:
    """The row of a recipe."""
    before, colon, after = recipe.title.partition(": ")
    is_name = colon and len(before) < 30 and before[:1].isupper() and before != "Harmful"
    system, idea = (before, after) if is_name else (recipe.name, recipe.title)
    idea = idea[0].upper() + idea[1:]
    cells = [system, f"`{recipe.name}`", idea, differences.get(recipe.name, ""), published(recipe)]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def published(recipe: Recipe) -> str:
    """The published average with its source; of RoBERTa-base where BERT-base has none; empty where nothing is."""
    for name, addition in (("bert-base", ""), ("roberta-base", " on RoBERTa-base")):
        preset = recipe.presets.get(name, Preset())
        if _AVERAGE in preset.expected:
            return f"{preset.expected[_AVERAGE]:.2f}{addition} ({source(preset.note)})"
    return ""


def source(note: str) -> str:
    """The first clause of a preset's note."""
    return re.split(r"[;:(]", note, maxsplit=1)[0].strip() or "see the recipe"


def key(name: str) -> str:
    """A name without case and hyphens, to compare systems with recipes."""
    return name.lower().replace("-", "")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
