"""A run trains on a sample of the rows, drawn by a seed of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opencse import UserError
from opencse.progress import Silent
from opencse.recipes.recipe import load_recipe
from opencse.runs.job import TrainJob
from opencse.runs.prepare import Prepared
from opencse.text.given import GivenTexts
from opencse.text.sampling import sample_rows

ROWS = np.arange(5, 105)
TEXT = GivenTexts(tuple((f"Sentence number {n} is short.",) for n in range(50)))


def drawn(count: int | None = None, share: float | None = None, seed: int = 0) -> list[int]:
    sample = sample_rows(ROWS, count=count, share=share, seed=seed, source="a.txt")
    return [] if sample is None else [int(row) for row in sample]


def test_a_sample_depends_on_its_seed_and_nests() -> None:
    assert drawn() == []
    assert drawn(20) == drawn(20) == drawn(share=0.2) == sorted(set(drawn(20)))
    assert drawn(20) != drawn(20, seed=1)
    assert set(drawn(20)) < set(drawn(60)) < set(drawn(100)) == set(ROWS.tolist())
    assert len(drawn(share=0.001)) == 2
    with pytest.raises(UserError, match=r"a\.txt: data\.rows 101 is more than the 100 rows that it can train on"):
        drawn(101)


def prepared(folder: Path, *settings: str, text: GivenTexts = TEXT) -> Prepared:
    quick = ("training.batch_size=4", "training.precision=float32", *settings)
    return TrainJob(text=text, model=str(folder), settings=quick, dev=None).prepare(Silent())


def test_a_run_trains_on_the_sample(tiny_folder: Path) -> None:
    run = prepared(tiny_folder, "data.rows=20", "training.seed=1")
    assert "sample     20 of 50 rows, drawn by data.sample_seed 0" in run.plan.lines()
    assert run.plan.examples == len(run.inputs) == 20
    expected = sample_rows(np.arange(50), count=20, share=None, seed=0, source="")
    assert expected is not None
    assert run.inputs.anchor_rows.tolist() == expected.tolist()
    assert run.plan.steps == 5
    other = prepared(tiny_folder, "data.share=0.4", "data.sample_seed=3", "training.seed=1")
    assert len(other.inputs) == 20
    assert other.inputs.anchor_rows.tolist() != run.inputs.anchor_rows.tolist()
    again = prepared(tiny_folder, "data.rows=20", "training.seed=2")
    assert again.inputs.anchor_rows.tolist() == run.inputs.anchor_rows.tolist(), "training.seed draws nothing here"


def test_rows_that_are_left_out_are_not_drawn(tiny_folder: Path) -> None:
    twice = GivenTexts(TEXT.rows + TEXT.rows)
    run = prepared(tiny_folder, "data.near_duplicates=1.0", "data.rows=50", text=twice)
    assert run.inputs.anchor_rows.tolist() == [*range(50)]


def test_resume_checks_the_sample(tiny_folder: Path, tmp_path: Path) -> None:
    settings = ("training.batch_size=4", "training.max_steps=1", "training.precision=float32")
    for rows in (20, 21):
        job = TrainJob(text=TEXT, model=str(tiny_folder), settings=(*settings, f"data.rows={rows}"), dev=None)
        if rows == 20:
            job.run(tmp_path / "run")
        else:
            with pytest.raises(UserError, match=r"another recipe\.data\.rows \(20 then, 21 now\)"):
                job.run(tmp_path / "run", resume=True)


def test_two_sizes_contradict_each_other() -> None:
    with pytest.raises(UserError, match=r"data\.rows and data\.share both say how many rows"):
        load_recipe("simcse", overrides=["data.rows=5", "data.share=0.5"])
