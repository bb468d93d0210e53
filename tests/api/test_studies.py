"""`opencse.compare`: grids, values chosen for each recipe, studies as files, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import opencse
from helpers import Heard
from opencse.cli.study_file import StudyFile, read_study, study_of
from opencse.errors import UserError
from opencse.studies.comparison import Comparison, at_an_end
from opencse.studies.study import StudyRecord, Variant, folder_name, parse_grid

QUICK = ["training.max_steps=1", "training.precision=float32", "encoder.pooling=mean", "encoder.layers=1"]


TEXTS = ["The kettle boils.", "Snow fell on the hills."]


@pytest.mark.slow
def test_a_grid_with_two_seeds_apart(small_sts: Path, tiny_folder: Path, tmp_path: Path) -> None:
    heard = Heard()

    def compared(*data_seeds: int, dry_run: bool = False) -> Comparison:
        return opencse.compare(
            [f"Sentence number {n} is short." for n in range(12)],
            tmp_path / "out",
            ["simcse"],
            small_sts,
            starts=[str(tiny_folder)],
            grid=["training.batch_size=4,6"],
            data_seeds=data_seeds,
            dropout_seeds=[8, 9],
            settings=QUICK,
            resamples=0,
            dry_run=dry_run,
            progress=heard,
        )

    assert compared(1, 2, dry_run=True).rows == []
    assert heard.said[-1] == "runs       8: 2 recipes x 1 start x 4 pairs of seeds; 0 of them finished before"
    assert not (tmp_path / "out").exists()
    first = compared(1, 2)
    assert [row.recipe for row in first.rows] == ["simcse (batch_size=4)", "simcse (batch_size=6)"]
    layout = first.rows[0].two_way
    assert layout is not None
    assert (layout.data_seeds, layout.dropout_seeds) == ((1, 2), (8, 9))
    folder = tmp_path / "out" / "runs" / tiny_folder.name / "simcse_batch_size_4_"
    record = StudyRecord.read(folder / "data-2-dropout-9")
    assert record is not None
    training = record.asked["recipe"]["training"]
    names = ("batch_size", "seed", "data_seed", "dropout_seed")
    assert tuple(training[name] for name in names) == (4, 42, 2, 9)
    assert (tmp_path / "out" / "grid.svg").is_file()
    heard.said.clear()
    compared(1, 2, 3, dry_run=True)
    assert heard.said[-1].endswith("12: 2 recipes x 1 start x 6 pairs of seeds; 8 of them finished before")


def test_seeds_apart_need_one_seed_for_the_rest(small_sts: Path, tmp_path: Path) -> None:
    def refused(message: str, **options: object) -> None:
        with pytest.raises(UserError, match=message):
            opencse.compare(TEXTS, tmp_path / "out", ["simcse"], small_sts, data_seeds=[1, 2], **options)  # type: ignore[arg-type]

    refused("give one seed for everything else: --seeds 42", seeds=[1, 2])
    refused(r"training\.data_seed is set by the comparison", settings=["training.data_seed=3"])
    refused(r"training\.dropout_seed is set by the comparison", grid=["training.dropout_seed=3,4"])


def test_fewer_tasks_are_read_of_a_folder_that_lacks_the_others(
    small_sts: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(small_sts / "stsb", tmp_path / "few" / "stsb")

    def compared(**options: object) -> Comparison:
        return opencse.compare(
            TEXTS,
            tmp_path / "out",
            ["simcse"],
            tmp_path / "few",
            starts=[tiny_folder],
            settings=QUICK,
            dry_run=True,
            **options,  # type: ignore[arg-type]
        )

    with pytest.raises(UserError, match=r"choose tasks without it \(--tasks stsb\)"):
        compared()
    compared(tasks=["stsb"])
    with pytest.raises(UserError, match="--tasks needs a single suite"):
        compared(tasks=["stsb"], suites=["sts", "dev"])


@pytest.mark.slow
def test_each_recipe_is_compared_with_the_values_that_are_best_for_it(
    small_sts: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    heard, out = Heard(), tmp_path / "out"

    def compared(*seeds: int, dry_run: bool = False) -> Comparison:
        return opencse.compare(
            [f"Sentence number {n} is short." for n in range(12)],
            out,
            ["simcse", "esimcse"],
            small_sts,
            starts=[str(tiny_folder)],
            seeds=seeds,
            tune=["training.learning_rate=1e-7,3e-2"],
            tune_seeds=[7],
            tune_metric="sts.average",
            baseline="esimcse",
            settings=QUICK,
            resamples=0,
            dry_run=dry_run,
            progress=heard,
        )

    assert compared(1, 2, dry_run=True).rows == []
    assert heard.said[-2:] == [
        "runs       4: 4 recipes x 1 start x 1 seed; 0 of them finished before",
        "then       each recipe with the best of these values, at 2 seeds",
    ]
    assert not out.exists()
    first = compared(1)
    tried = Comparison.model_validate_json((out / "tuning" / "comparison.json").read_bytes())
    scores = {row.recipe: row.scores[7] for row in tried.rows}
    assert len(scores) == 4
    best = [max((name for name in scores if name.startswith(recipe)), key=lambda name: scores[name])
            for recipe in ("simcse", "esimcse")]  # fmt: skip
    assert [row.recipe for row in first.rows] == best
    assert first.baseline == best[1]
    assert first.tuned is not None
    assert first.tuned.best == {name: round(scores[name], 4) for name in best}
    assert "highest sts.average at seed 7" in (out / "comparison.md").read_text()
    assert (out / "tuning" / "grid.svg").is_file()
    assert not (out / "grid.svg").exists()
    record = StudyRecord.read(out / "runs" / tiny_folder.name / folder_name(best[0]) / "1")
    assert record is not None
    assert record.asked["recipe"]["training"]["learning_rate"] == float(best[0].partition("=")[2].rstrip(")"))
    heard.said.clear()
    shutil.rmtree(out / "runs")  # as if it had been stopped while the values were chosen
    shutil.rmtree(out / "starts")
    for file in out.glob("comparison.*"):
        file.unlink()
    assert [row.scores.keys() for row in compared(1, 2).rows] == [{1, 2}] * 2
    assert sum("learning_rate" in line and line.startswith("run ") for line in heard.said) == 4


def test_a_value_at_the_end_of_those_tried_is_told() -> None:
    tune = ["training.learning_rate=3e-5,1e-4,4e-4", "training.batch_size=64,128,256", "encoder.pooling=mean,cls"]

    def told(*values: str) -> str:
        return at_an_end(Variant("simcse", dict(zip(parse_grid(tune), values, strict=True))), tune)

    assert told("1e-4", "128", "cls") == ""
    assert told("4e-4", "128", "cls") == (
        "; training.learning_rate=4e-4 is at the end of what was tried: try values beyond it"
    )
    assert told("3e-5", "256", "mean").startswith("; training.learning_rate=3e-5, training.batch_size=256 is at")


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
        (WHOLE.replace("[settings]", "sedes = 1\n[settings]"), r"unknown key 'sedes' .did you mean 'seeds'"),
        (WHOLE.replace('"42-44,50"', '"44-42"'), "seeds: '44-42' is neither a number nor a range"),
    ],
)
def test_mistakes_are_told_with_their_place(file: Path, content: str, message: str) -> None:
    file.write_text(content)
    with pytest.raises(UserError, match=message):
        read_study(file, {})


def test_without_a_file_the_same_is_needed() -> None:
    asked = {"text": "t", "out": "o", "recipes": ["simcse"], "data": "d"}
    assert study_of(asked) == StudyFile(text="t", out="o", recipes=("simcse",), data="d")
    with pytest.raises(UserError, match=r"^--recipes missing; add it to the command, or name a study file"):
        study_of(asked | {"recipes": []})


def test_a_grid_and_seeds_apart_in_a_file(file: Path) -> None:
    from opencse.studies.study import parse_grid

    file.write_text(
        WHOLE.replace("[settings]", 'data_seeds = "1-3"\ndropout_seeds = [4, 5]\n[settings]')
        + "[grid]\ntraining.batch_size = [64, 128]\nencoder.pooling = ['cls']\n"
    )
    options = read_study(file, {}).options()
    assert (options["data_seeds"], options["dropout_seeds"]) == ((1, 2, 3), (4, 5))
    assert parse_grid(options["grid"]) == {"training.batch_size": ["64", "128"], "encoder.pooling": ['"cls"']}
    assert read_study(file, {"grid": ["training.epochs=1,2"]}).options()["grid"] == ("training.epochs=1,2",)
