"""`opencse.compare` with values of settings that are chosen for each recipe."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import opencse
from helpers import Heard
from opencse.api.study_tuning import at_an_end
from opencse.errors import UserError
from opencse.studies.comparison import Comparison
from opencse.studies.grid import Variant, parse_grid
from opencse.studies.record import StudyRecord
from opencse.studies.study import folder_name

QUICK = ["training.max_steps=1", "training.precision=float32", "encoder.pooling=mean"]
TEXTS = ["The kettle boils.", "Snow fell on the hills."]


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
            tune=["training.learning_rate=1e-7,1e-2,3e-2"],
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
        "runs       6: 6 recipes x 1 start x 1 seed; 0 of them finished before",
        "then       each recipe with the best of these values, at 2 seeds",
    ]
    assert not out.exists()
    first = compared(1)
    tried = Comparison.model_validate_json((out / "tuning" / "comparison.json").read_bytes())
    scores = {row.recipe: row.scores[7] for row in tried.rows}
    assert len(scores) == 6
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


def test_values_are_chosen_by_a_seed_and_a_score_of_their_own(small_sts: Path, tmp_path: Path) -> None:
    def refused(message: str, **options: object) -> None:
        tune = ["training.batch_size=4,6"]
        with pytest.raises(UserError, match=message):
            opencse.compare(TEXTS, tmp_path / "out", ["simcse"], small_sts, **({"tune": tune} | options))  # type: ignore[arg-type]

    refused(r"--tune chooses by dev.stsb, which is not of the suites sts; .* add the suite: --suites dev,sts$")
    refused("--tune-seeds: 2 is among --seeds too", seeds=[1, 2], tune_seeds=[2, 7], suites=["dev", "sts"])
    refused("--tune and --grid both give values", grid=["training.epochs=1,2"], suites=["dev", "sts"])
    refused("--tune training.batch_size: is there twice", tune=["training.batch_size=4", "training.batch_size=6"])
    refused(r"^--tune training.batchsize=4.*did you mean", tune=["training.batchsize=4,6"])
    refused("training.batch_size is in --set and in --tune", settings=["training.batch_size=4"])
    refused("the baseline 'simsce' is not among", baseline="simsce", tune_metric="sts.average")
    assert not (tmp_path / "out").exists()
