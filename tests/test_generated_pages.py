"""What is written from the code is up to date: the page of parts, and the schema, which every recipe obeys."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from types import ModuleType

import jsonschema
import pytest

import helpers
from opencse.objective.registry import built_in
from opencse.recipes.recipe_files import recipe_names, recipe_text

DOCS = Path(__file__).parents[1] / "docs"
script = helpers.script_of_docs("build_parts")


def test_the_page_of_parts_is_up_to_date(script: ModuleType) -> None:
    written = script.PAGE.read_text(encoding="utf-8")
    assert written == script.page(), "run python docs/build_parts.py"
    kinds = [kind for role in ("view", "sides", "negatives", "term") for kind in built_in(role)]
    assert len(kinds) > 30
    assert all(f"\n### {kind}\n" in written for kind in kinds)


def test_every_recipe_obeys_the_schema(script: ModuleType) -> None:
    written = script.SCHEMA.read_text(encoding="utf-8")
    assert written == script.schema(), "run python docs/build_parts.py"
    schema = json.loads(written)
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    for name in recipe_names():
        kind(schema).validate(tomllib.loads(recipe_text(name)))


@pytest.mark.parametrize(
    "wrong",
    [
        'objective.view = { kind = "crop", rat = 0.1 }',
        'objective.negatives = [{ kind = "in_batch", weight = "much" }]',
        'objective.temperature = "low"',
        "training.epoch = 1",
    ],
)
def test_what_is_no_recipe_does_not(script: ModuleType, wrong: str) -> None:
    recipe = tomllib.loads(f'name = "a"\ntitle = "A"\n{wrong}')
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(recipe, json.loads(script.schema()))


def test_the_pictures_of_how_it_works_are_up_to_date() -> None:
    drawn = helpers.script(DOCS / "build_pictures.py").pictures()
    page = (DOCS / "how-it-works.md").read_text(encoding="utf-8")
    assert len(drawn) == 2
    for path, picture in drawn.items():
        assert path.read_text(encoding="utf-8") == picture, "run python docs/build_pictures.py"
        assert f"assets/{path.name}" in page
