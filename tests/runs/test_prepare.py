"""What is decided and refused before the first step."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse import UserError
from opencse.progress import Silent
from opencse.runs.job import TrainJob
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
