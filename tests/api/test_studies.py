"""`opencse.compare` and `opencse.reproduce`: what they refuse before the first run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import opencse
from helpers import Heard
from opencse.errors import UserError
from opencse.studies.comparison import Comparison
from opencse.studies.record import StudyRecord

QUICK = ["training.max_steps=1", "training.precision=float32", "encoder.pooling=mean"]
TEXTS = ["The kettle boils.", "Snow fell on the hills."]


def test_a_baseline_is_one_of_the_recipes(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"the baseline 'simsce' is not among the recipes .did you mean 'simcse'"):
        opencse.compare(TEXTS, tmp_path / "out", ["simcse"], tmp_path, baseline="simsce")


def test_a_row_needs_published_scores(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no published scores are known"):
        opencse.reproduce("simcse", TEXTS, tmp_path / "out", tmp_path)
    assert not (tmp_path / "out").exists()


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
