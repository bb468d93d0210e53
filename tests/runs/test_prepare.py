"""What is decided and refused before the first step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opencse import UserError
from opencse.progress import Silent
from opencse.recipes.recipe import load_recipe
from opencse.runs.job import TrainJob
from opencse.runs.prepare import near_duplicates
from opencse.text.given import GivenTexts

SETTINGS = ("training.batch_size=4", "training.precision=float32")
ROWS = tuple((f"Sentence number {n} is short.",) for n in range(12))


def test_a_budget_decides_the_steps_unless_they_are_known(tiny_folder: Path) -> None:
    job = TrainJob(text=GivenTexts(ROWS), model=str(tiny_folder), settings=SETTINGS, dev=None)
    assert job.prepare(Silent()).plan.steps == 3
    assert job.prepare(Silent(), steps=7).plan.steps == 7


def test_one_example_is_refused(tiny_folder: Path) -> None:
    job = TrainJob(text=GivenTexts(ROWS[:1], "one"), model=str(tiny_folder), settings=SETTINGS, dev=None)
    with pytest.raises(UserError, match="one: only one example; contrast needs at least two"):
        job.prepare(Silent())


def test_near_duplicates_are_looked_for_only_where_the_recipe_says_so() -> None:
    text = GivenTexts((*ROWS, ROWS[0]))
    assert near_duplicates(text, load_recipe("simcse"), Silent()) is None
    pytest.importorskip("rensa")
    rows = near_duplicates(text, load_recipe("simcse", overrides=["data.near_duplicates=0.99"]), Silent())
    assert rows is not None
    assert np.flatnonzero(rows).tolist() == [12]
