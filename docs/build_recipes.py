"""Writes docs/recipes.md, the page of all recipes and presets, from the recipes: python docs/build_recipes.py."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opencse.recipes.files import FAMILIES, recipe_names, sort_of
from opencse.recipes.recipe import Recipe, load_recipe
from opencse.recipes.summary import preset_changes, published, scores, short_paper

PAGE = Path(__file__).with_name("recipes.md")
_INTRODUCTION = """# Recipes

Written by `python docs/build_recipes.py` from `src/opencse/recipes`; their comments say where a paper and its
authors' code differ. All numbers are the papers', in percent; none of them was measured here. `sts.average` is the mean
of the seven STS test sets (Spearman, `all`), `dev.stsb` STS-B's development set, `dev.transfer` and `transfer.average`
the mean accuracy over the seven transfer tasks.

A recipe follows the paper; presets change it, and can be combined: `simcse:bert-large:crop-10`. There are three sorts:

- *backbone*: settings for a model. `--model bert-base` selects the preset of that name, or of that Hub id.
- *code*: `reference` is the authors' public code where it departs from the paper. `paper` is the recipe unchanged.
- *ablation*: one row of a table; its numbers are with BERT-base.

They are applied in that order, then comes what a file of your own with `base = "simcse"` sets
([example](guides/parts.md#3-train-with-it)), then `--set` and `--seed`. `opencse recipes show NAME:PRESET` prints the
result, `opencse recipes diff A B` shows where two differ.

Pooling and head apply to a plain backbone, a folder that names no pooling. A start that names its pooling
(sentence-transformers' models, `opencse-mini`, trained encoders, what `opencse static` and `opencse pretrain` write)
keeps it, with its Dense layers and its Normalize, and is trained without a head that belongs to another pooling or
would be kept; a preset, `--set encoder.pooling=...` or your own recipe file overrides that. The plan that a run
prints first says which pooling was taken, and why.
"""


def made_of(recipe: Recipe) -> str:
    """Describes view, negatives, terms and head of a recipe in a few words."""
    objective = recipe.objective
    parts: list[str] = [objective.view.kind]
    if objective.positive.of.kind != "views":
        parts.append(f"positive of {objective.positive.of.kind}")
    parts += [_named(source.model_dump(mode="json")) for source in objective.negatives]
    parts += [term.kind for term in objective.terms]
    if objective.dual_encoder:
        parts.append("two encoders")
    worst_case = recipe.training.worst_case
    if worst_case is not None:
        inputs = "" if worst_case.inputs.kind == "none" else f" with {worst_case.inputs.kind} inputs"
        parts.append(f"{worst_case.kind} pass{inputs}")
    head = recipe.encoder.head
    if head.kind != "none":
        parts.append(f"{head.kind} head" if head.keep else f"{head.kind} head in training")
    if recipe.encoder.part:
        parts.append(recipe.encoder.part)
    for one in recipe.datasets or ():
        loss = one.objective or objective
        kinds = [loss.view.kind, *(part.kind for part in (*loss.negatives, *loss.terms))]
        parts.append(f"also {one.name} ({', '.join(kinds)})")
    return " + ".join(parts)


def _named(source: Mapping[str, Any]) -> str:
    """Describes a source of negatives by its kind, its vectors, its size, or its layers."""
    words = [str(source["kind"])]
    of = source.get("of", {}).get("kind", "views")
    if of != "views":
        words.append(f"of {of}")
    words += [str(source["size"])] if "size" in source else []
    words += [",".join(map(str, source["layers"]))] if "layers" in source else []
    return " ".join(words)


def page() -> str:
    """The whole page in Markdown."""
    recipes = [load_recipe(name) for name in recipe_names()]
    links = [f"[`{recipe.name}`](#{anchor})" for recipe, anchor in zip(recipes, anchors(recipe_names()), strict=True)]
    parts = [_INTRODUCTION]
    for family, heading in FAMILIES.items():
        overview = [
            [link, recipe.title, made_of(recipe), published(recipe.presets), short_paper(recipe.paper)]
            for link, recipe in zip(links, recipes, strict=True)
            if recipe.family == family
        ]
        if overview:
            head = ["recipe", "what", "made of", "published for BERT-base", "paper"]
            parts += [f"**{heading}**", table(head, overview)]
    for recipe in recipes:
        parts.append(f"## {recipe.name}\n\n{recipe.title}.\n\n- Made of: {made_of(recipe)}\n- Paper: {recipe.paper}")
        if recipe.presets:
            parts.append(table(["preset", "sort", "changes", "published", "note"], presets(recipe)))
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def presets(recipe: Recipe) -> list[list[str]]:
    """A row for each preset."""
    return [
        [
            f"`{name}`",
            sort_of(name, recipe.presets) + (f", `{preset.model}`" if preset.model else ""),
            "<br>".join(f"`{change}`" for change in preset_changes(preset)),
            ", ".join(scores(preset)),
            preset.note,
        ]
        for name, preset in recipe.presets.items()
    ]


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def anchors(headings: list[str]) -> list[str]:
    """The ids that headings get on a rendered page: letters, digits and hyphens, and a number where one comes again."""
    plain = ["".join(letter for letter in heading if letter.isalnum() or letter == "-") for heading in headings]
    before = [plain[:place].count(anchor) for place, anchor in enumerate(plain)]
    return [f"{anchor}-{times}" if times else anchor for anchor, times in zip(plain, before, strict=True)]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
