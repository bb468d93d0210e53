"""Pages that are made from records and from the code are up to date, and records are gathered from runs."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import jsonschema
import pytest

import helpers
from helpers import json_in
from opencse.recipes.files import recipe_names, recipe_text
from opencse.recipes.recipe import load_recipe

DOCS = Path(__file__).parents[1] / "docs"


def test_every_recipe_obeys_the_schema() -> None:
    built = helpers.script(DOCS / "build_parts.py")
    written = built.SCHEMA.read_text(encoding="utf-8")
    assert written == built.schema(), "run python docs/build_parts.py"
    schema = json.loads(written)
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    for name in recipe_names():
        kind(schema).validate(tomllib.loads(recipe_text(name)))


def rows(page: str) -> dict[str, list[str]]:
    """The cells of each row, by the recipe."""
    lines = [line for line in page.splitlines() if line.startswith("| ") and "`" in line]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return {row[1].strip("`"): row for row in cells}


def test_every_recipe_has_a_row_with_its_published_average() -> None:
    made = rows(helpers.script(DOCS / "build_methods.py").page())
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


@pytest.mark.parametrize("name", ["adapt", "methods", "parts", "recipes"])
def test_a_page_is_up_to_date(name: str) -> None:
    built = helpers.script(DOCS / f"build_{name}.py")
    records = [json_in(built.RECORD)] if hasattr(built, "RECORD") else []
    assert built.PAGE.read_text(encoding="utf-8") == built.page(*records), f"run python docs/build_{name}.py"
