"""The record of a run: what makes two runs the same, and what a file keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opencse.adapting.selection import DevScore, OwnPoolingScore
from opencse.environment import Environment
from opencse.errors import UserError
from opencse.runs.record import Identity, Outcome, RunRecord, TextCounts

RECIPE: dict[str, Any] = {"name": "r", "title": "t", "paper": "p", "training": {"seed": 1}}


def identity(**changes: Any) -> Identity:
    values: dict[str, Any] = {
        "recipe": RECIPE,
        "model": "m",
        "text": "hash",
        "precision": "float32",
        "dev": "sample",
        "start": {"a": "1"},
        "dev_pairs": "hash",
        "parts": {"mine": "1"},
        "models": {"teacher/a": "1"},
    }
    return Identity(**(values | changes))


def record() -> RunRecord:
    counts = TextCounts(rows=3, tokens=9, duplicates=0)
    return RunRecord(identity=identity(), source="x.txt", corpus=counts, steps=10, environment=Environment.here("cpu"))


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({}, None),
        ({"recipe": {**RECIPE, "title": "another", "paper": "another"}}, None),
        ({"recipe": {**RECIPE, "training": {"seed": 2}}}, r"another recipe.training.seed (1 then, 2 now)"),
        ({"precision": "bf16"}, "another precision"),
        ({"code": ["x.py"]}, "other code"),
        ({"parts": {"mine": "2"}}, "other code of the recipe's parts: mine changed after the run was begun"),
        ({"parts": None}, None),
        (
            {"models": {"teacher/a": "2"}},
            "another model that the recipe names: teacher/a changed after the run was begun",
        ),
        ({"models": None}, None),
        ({"text": "other"}, "another text"),
        ({"model": "n"}, None),
        ({"start": {"a": "2"}}, "another start (m): these files have changed: a"),
        ({"start": None, "model": "n"}, "another model ('m' then, 'n' now)"),
        ({"dev": "mine"}, None),
        ({"dev_pairs": "other"}, "other dev data (sample): its content has changed"),
        ({"dev_pairs": None, "dev": "mine"}, "another dev ('sample' then, 'mine' now)"),
    ],
)
def test_contents_make_a_run_the_same_and_names_do_not(changes: dict[str, Any], part: str | None) -> None:
    difference = identity().difference(identity(**changes))
    assert difference is None if part is None else part in str(difference)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    run = record()
    run.start, run.given = DevScore(50.0, error=1.0), OwnPoolingScore("mean", 40.0)
    run.result = Outcome(kept="best", verdict="v", scores={0: 50.0, 5: 60.0}, steps=5, step=5)
    run.write(tmp_path / "run.json")
    again = RunRecord.read(tmp_path / "run.json")
    assert again == run
    assert again.ended_early, "5 of 10 steps"
    assert again.result is not None
    assert again.result.score == 60.0


def test_keys_of_a_later_version_stay(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    record().write(file)
    file.write_text(file.read_text().replace('"steps": 10', '"steps": 10, "later": [1]'))
    RunRecord.read(file).write(file)
    assert '"later"' in file.read_text()


def test_a_damaged_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"steps": "many"}')
    with pytest.raises(UserError, match="cannot be read as the record of a run"):
        RunRecord.read(tmp_path / "run.json")
