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
from opencse.api.study_file import study_of
from opencse.objective.registry import built_in
from opencse.recipes.recipe import load_recipe
from opencse.recipes.recipe_files import recipe_names, recipe_text

DOCS = Path(__file__).parents[1] / "docs"


build_parts = helpers.script_of_docs("build_parts")


def test_the_page_of_parts_is_up_to_date(build_parts: ModuleType) -> None:
    written = build_parts.PAGE.read_text(encoding="utf-8")
    assert written == build_parts.page(), "run python docs/build_parts.py"
    kinds = [kind for role in ("view", "sides", "negatives", "term") for kind in built_in(role)]
    assert len(kinds) > 30
    assert all(f"\n### {kind}\n" in written for kind in kinds)


def test_every_recipe_obeys_the_schema(build_parts: ModuleType) -> None:
    written = build_parts.SCHEMA.read_text(encoding="utf-8")
    assert written == build_parts.schema(), "run python docs/build_parts.py"
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


build_adapt = helpers.script_of_docs("build_adapt")


def test_the_page_of_adapt_is_up_to_date(build_adapt: ModuleType) -> None:
    adapt_runs = json.loads(build_adapt.RECORD.read_text(encoding="utf-8"))
    assert build_adapt.PAGE.read_text(encoding="utf-8") == build_adapt.page(adapt_runs), (
        "run python docs/build_adapt.py"
    )
    seeds = [run["seed"] for run in adapt_runs if (run["model"], run["pairs"]) == ("opencse-mini", "")]
    assert seeds.count(42) == seeds.count(None), "every collection has a run"


build_family = helpers.script_of_docs("build_family")


def test_the_page_of_family_is_up_to_date(build_family: ModuleType) -> None:
    scores = json.loads(build_family.RECORD.read_text(encoding="utf-8"))
    assert build_family.PAGE.read_text(encoding="utf-8") == build_family.page(scores), "run python docs/build_family.py"
    assert set(scores["mean"]["scores"]) <= set(build_family.systems_of_the_studies())
    assert "simcse" in scores["mean"]["scores"]


build_figures = helpers.script_of_docs("build_figures")


def test_the_page_of_figures_is_up_to_date(build_figures: ModuleType) -> None:
    record = json.loads(build_figures.RECORD.read_text(encoding="utf-8"))
    page, pictures = build_figures.page(record), build_figures.pictures(record)
    assert build_figures.PAGE.read_text(encoding="utf-8") == page, "run python docs/build_figures.py"
    assert len(pictures) == 3
    for name in pictures:
        assert f"figures/{name}" in page
        assert (build_figures.FIGURES / name).is_file()
    assert next(iter(record["encoders"])) == build_figures.START


build_methods = helpers.script_of_docs("build_methods")


def rows(page: str) -> dict[str, list[str]]:
    """The cells of each row, by the recipe."""
    lines = [line for line in page.splitlines() if line.startswith("| ") and "`" in line]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return {row[1].strip("`"): row for row in cells}


def test_the_page_of_methods_is_up_to_date(build_methods: ModuleType) -> None:
    assert build_methods.PAGE.read_text(encoding="utf-8") == build_methods.page(), "run python docs/build_methods.py"


def test_every_recipe_has_a_row_with_its_published_average(build_methods: ModuleType) -> None:
    made = rows(build_methods.page())
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


build_papers = helpers.script_of_docs("build_papers")


@pytest.fixture(scope="module")
def published(build_papers: ModuleType) -> dict[str, Any]:
    return tomllib.loads(build_papers.PUBLISHED.read_text(encoding="utf-8"))


def test_the_pages_are_up_to_date(build_papers: ModuleType, published: dict[str, Any]) -> None:
    scores = json.loads(build_papers.SCORES.read_text(encoding="utf-8"))
    pages, pictures = build_papers.pages(scores, published), build_papers.pictures(scores, published)
    assert [*pages] == ["papers.md", "ablations.md", "combinations.md"]
    for name, text in pages.items():
        assert (build_papers.RESULTS / name).read_text(encoding="utf-8") == text, "run python docs/build_papers.py"
    for text, picture in zip(list(pages.values())[:2], pictures, strict=True):
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
