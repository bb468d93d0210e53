"""A study as a file: what it holds, what is given beside it, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.api.study_file import StudyFile, read_study, study_of
from opencse.errors import UserError

WHOLE = """
text = "wiki.txt"
out = "table"
data = "data"
recipes = ["simcse", "simcse:dropout-0.2"]
seeds = "42-44,50"

[settings]
encoder.pooling = "cls"
training = { max_steps = 100, learning_rate = 1e-4 }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(WHOLE)
    return path


def test_what_it_says_and_what_it_leaves_out(file: Path) -> None:
    study = read_study(file, {})
    options = study.options()
    assert study.recipes == ("simcse", "simcse:dropout-0.2")
    assert options["seeds"] == (42, 43, 44, 50)
    assert options["settings"] == ('encoder.pooling="cls"', "training.max_steps=100", "training.learning_rate=0.0001")
    assert (options["starts"], options["suites"]) == (("opencse-mini",), ("sts",))
    assert (options["dev"], options["kept"]) == ("sample", False)


def test_settings_mean_what_they_mean_on_the_command_line(file: Path) -> None:
    from opencse.recipes.recipe import resolve_recipe

    recipe = resolve_recipe("simcse", overrides=read_study(file, {}).options()["settings"]).recipe
    assert recipe.encoder.pooling == "cls"
    assert recipe.training.max_steps == 100
    assert recipe.training.learning_rate == 1e-4


def test_what_is_given_beside_it_wins(file: Path) -> None:
    study = read_study(file, {"out": "elsewhere", "seeds": "7"})
    assert (study.out, study.options()["seeds"], study.text) == ("elsewhere", (7,), "wiki.txt")


def test_a_setting_given_beside_it_leaves_the_others_as_they_are(file: Path) -> None:
    from opencse.recipes.recipe import resolve_recipe

    study = read_study(file, {"settings": ["training.max_steps=7", "training.seed=3"]})
    assert "training.max_steps=100" not in study.options()["settings"]
    recipe = resolve_recipe("simcse", overrides=study.options()["settings"]).recipe
    assert (recipe.training.max_steps, recipe.training.seed) == (7, 3)
    assert (recipe.encoder.pooling, recipe.training.learning_rate) == ("cls", 1e-4)


def test_a_grid_given_beside_it_takes_the_setting_of_the_file(file: Path) -> None:
    options = read_study(file, {"grid": ["training.learning_rate=1e-5,3e-5"]}).options()
    assert options["grid"] == ("training.learning_rate=1e-5,3e-5",)
    assert options["settings"] == ('encoder.pooling="cls"', "training.max_steps=100")


def test_parts_of_an_objective_are_settings_too(file: Path) -> None:
    from opencse.recipes.recipe import resolve_recipe

    file.write_text(WHOLE + 'objective.terms = [{ kind = "dcl", weight = 0.5 }]\n')
    recipe = resolve_recipe("simcse", overrides=read_study(file, {}).options()["settings"]).recipe
    dcl = recipe.objective.terms[0].model_dump()
    assert (dcl["kind"], dcl["weight"]) == ("dcl", 0.5)


def test_a_setting_given_beside_it_takes_the_grid_of_the_file(file: Path) -> None:
    file.write_text(WHOLE + "[grid]\ntraining.batch_size = [32, 64]\ntraining.warmup = [0.0, 0.1]\n")
    options = read_study(file, {"settings": ["training.batch_size=16"]}).options()
    assert options["grid"] == ("training.warmup=0.0,0.1",)
    assert "training.batch_size=16" in options["settings"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text = ", r"study.toml: cannot be read as a study \(.*\); a TOML file is expected"),
        ('text = "t"\nrecipes = ["simcse"]', r"study.toml: --out and --data missing"),
        ('text = "t"\nrecipes = ["simcse"]\nout = "o"', r"study.toml: --data missing"),
        (WHOLE.replace("[settings]", "sedes = 1\n[settings]"), r"unknown key 'sedes' .did you mean 'seeds'"),
        (WHOLE.replace('"42-44,50"', '"44-42"'), "seeds: '44-42' is neither a number nor a range"),
        (WHOLE.replace('"42-44,50"', "[1.5]"), r"study.toml: seeds.0: "),
        (WHOLE.replace("[settings]", 'precision = "half"\n[settings]'), "study.toml: precision: "),
        (WHOLE.replace("[settings]", "workers = 0\n[settings]"), "study.toml: workers: .*greater than or equal to 1"),
    ],
)
def test_mistakes_are_told_with_their_place(file: Path, content: str, message: str) -> None:
    file.write_text(content)
    with pytest.raises(UserError, match=message):
        read_study(file, {})


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no.toml: cannot be read as a study"):
        read_study(tmp_path / "no.toml", {})


def test_without_a_file_the_same_is_needed() -> None:
    asked = {"text": "t", "out": "o", "recipes": ["simcse"], "data": "d"}
    assert study_of(asked) == StudyFile(text="t", out="o", recipes=("simcse",), data="d")
    with pytest.raises(UserError, match=r"^--recipes missing; add it to the command, or name a study file"):
        study_of(asked | {"recipes": []})


def test_a_grid_and_seeds_apart_in_a_file(file: Path) -> None:
    from opencse.studies.grid import parse_grid

    file.write_text(
        WHOLE.replace("[settings]", 'data_seeds = "1-3"\ndropout_seeds = [4, 5]\n[settings]')
        + "[grid]\ntraining.batch_size = [64, 128]\nencoder.pooling = ['cls']\n"
    )
    options = read_study(file, {}).options()
    assert (options["data_seeds"], options["dropout_seeds"]) == ((1, 2, 3), (4, 5))
    assert parse_grid(options["grid"]) == {"training.batch_size": ["64", "128"], "encoder.pooling": ['"cls"']}
    assert read_study(file, {"grid": ["training.epochs=1,2"]}).options()["grid"] == ("training.epochs=1,2",)
