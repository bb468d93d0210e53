"""Pages that are made from records and from the code are up to date, and records are gathered from runs."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest

import helpers
from opencse.cli.study_file import study_of
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


def test_the_pictures_of_how_it_works_are_up_to_date() -> None:
    drawn = helpers.script(DOCS / "build_pictures.py").pictures()
    page = (DOCS / "how-it-works.md").read_text(encoding="utf-8")
    assert len(drawn) == 2
    for path, picture in drawn.items():
        assert path.read_text(encoding="utf-8") == picture, "run python docs/build_pictures.py"
        assert f"assets/{path.name}" in page


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


ROOT = Path(__file__).parents[1]


STUDIES = ROOT / "benchmarks" / "studies"


GIVEN = {"text": "t", "out": "o", "data": "d"}


@pytest.fixture(scope="module")
def published(build_papers: ModuleType) -> dict[str, Any]:
    return tomllib.loads(build_papers.PUBLISHED.read_text(encoding="utf-8"))


def test_the_pages_are_up_to_date(build_papers: ModuleType, published: dict[str, Any]) -> None:
    scores = json.loads(build_papers.SCORES.read_text(encoding="utf-8"))
    pages, pictures = build_papers.pages(scores, published), build_papers.pictures(scores, published)
    assert [*pages] == ["papers.md", "ablations.md"]
    for name, text in pages.items():
        assert (build_papers.RESULTS / name).read_text(encoding="utf-8") == text, "run python docs/build_papers.py"
    for text, picture in zip(pages.values(), pictures, strict=True):
        assert f"figures/{picture}" in text
        assert (build_papers.FIGURES / picture).is_file()
    assert all(table["verdict"] for table in published["tables"])


def test_every_row_is_a_recipe_and_most_have_published_numbers(
    build_papers: ModuleType, published: dict[str, Any]
) -> None:
    studies = [study_of({**tomllib.loads(file.read_text()), **GIVEN}) for file in sorted(STUDIES.glob("papers*.toml"))]
    assert len(studies) == 7
    steps = {s for study in studies for s in study.options()["settings"] if s.startswith("training.max_steps")}
    assert len(steps) == 2, "of two starts: of the systems, and of the tuned one"
    run = {recipe for study in studies for recipe in study.recipes}
    rows = [(table, recipe) for table in published["tables"] for _, recipe in table["rows"]]
    listed = {recipe for _, recipe in rows} | {*published["systems"], *published["combination"]}
    assert listed >= run - {"simcse:batch-128", "queue-dcl"}
    assert run >= {recipe for _, recipe in rows}
    assert all(table["base"] in [recipe for _, recipe in table["rows"]] for table in published["tables"])
    known = [build_papers.of_paper(table, recipe) is not None for table, recipe in rows]
    assert sum(known) > 0.8 * len(known)
    dropout = published["tables"][0]
    values = [build_papers.of_paper(dropout, recipe) for _, recipe in dropout["rows"]]
    assert values == [71.1, 72.6, 81.1, 82.5, 81.4, 80.5, 71.0, 43.6]


@pytest.mark.parametrize("name", ["adapt", "family", "figures", "methods", "parts", "recipes"])
def test_a_page_is_up_to_date(name: str) -> None:
    built = helpers.script(DOCS / f"build_{name}.py")
    records = [json.loads(built.RECORD.read_text(encoding="utf-8"))] if hasattr(built, "RECORD") else []
    written = built.PAGE.read_text(encoding="utf-8")
    assert written == built.page(*records), f"run python docs/build_{name}.py"
    if name == "figures":
        assert all((built.FIGURES / picture).is_file() and picture in written for picture in built.pictures(*records))


@pytest.fixture(scope="module")
def build_papers() -> ModuleType:
    return helpers.script(DOCS / "build_papers.py")
