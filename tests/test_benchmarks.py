"""The study files of the benchmarks name what exists."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from opencse.cli.study_file import study_of
from opencse.recipes.recipe import resolve_recipe

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.parametrize("file", sorted((BENCHMARKS / "studies").glob("*.toml")), ids=lambda path: path.stem)
def test_a_study_names_recipes_that_exist(file: Path) -> None:
    study = study_of({"text": "t", "out": "o", "data": "d", **tomllib.loads(file.read_text(encoding="utf-8"))})
    assert study.recipes
    for recipe in study.recipes:
        resolve_recipe(recipe)
