"""The stored ratios of benchmarks/quick.py, and the study files."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from opencse.cli.study_file import study_of
from opencse.recipes.recipe import resolve_recipe

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def test_every_measured_row_has_a_stored_ratio() -> None:
    script = (BENCHMARKS / "quick.py").read_text(encoding="utf-8")
    stored = json.loads((BENCHMARKS / "quick.json").read_text(encoding="utf-8"))
    functions = script.count(" = paired(") + script.count("return paired(")
    answers = script.split("FIRST_ANSWERS = {")[1].split("\n}")[0].count("compared with Python")
    assert answers == 3
    assert len(stored) == functions - 1 + answers
    assert [name for name in stored if f'"{name}"' not in script] == []


@pytest.mark.parametrize("file", sorted((BENCHMARKS / "studies").glob("*.toml")), ids=lambda path: path.stem)
def test_a_study_names_recipes_that_exist(file: Path) -> None:
    study = study_of({"text": "t", "out": "o", "data": "d", **tomllib.loads(file.read_text(encoding="utf-8"))})
    assert study.recipes
    for recipe in study.recipes:
        resolve_recipe(recipe)
