"""The page of systems: a row for every recipe, and the published averages of the recipes."""

from __future__ import annotations

import re
import tomllib
from types import ModuleType

import helpers
from opencse.recipes.recipe import load_recipe
from opencse.recipes.recipe_files import recipe_names

script = helpers.script_of_docs("build_methods")


def rows(page: str) -> dict[str, list[str]]:
    """The cells of each row, by the recipe."""
    lines = [line for line in page.splitlines() if line.startswith("| ") and "`" in line]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return {row[1].strip("`"): row for row in cells}


def test_the_page_is_up_to_date(script: ModuleType) -> None:
    assert script.PAGE.read_text(encoding="utf-8") == script.page(), "run python docs/build_methods.py"


def test_every_recipe_has_a_row_with_its_published_average(script: ModuleType) -> None:
    made = rows(script.page())
    assert set(made) == set(recipe_names())
    for name, (system, _, idea, _, published) in made.items():
        assert system
        assert idea
        presets = load_recipe(name).presets
        expected = [
            presets[one].expected["sts.average"]
            for one in ("bert-base", "roberta-base")
            if one in presets and "sts.average" in presets[one].expected
        ]
        number = re.match(r"\d+\.\d\d", published)
        assert (float(number[0]) if number else None) == (expected[0] if expected else None), name
        if published:
            assert re.search(r"\(.{4,}\)$", published), f"{name} names its source"
    assert made["simcse"][4].startswith("76.25 (SimCSE, Tables 5")


def test_a_system_is_on_the_page_once(script: ModuleType) -> None:
    page = script.page()
    built, _, rest = page.partition("## Not built")
    texts = tomllib.loads(script.TEXTS.read_text(encoding="utf-8"))
    for system in texts["not_built"]:
        has_recipe = script.key(system) in {script.key(name) for name in recipe_names()}
        assert (f"{system} (" in rest) is not has_recipe
    assert "TNCSE" not in built
