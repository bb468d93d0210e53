"""Tasks with a training set: three files each, and grades from 0 to 5."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.evaluation.regression.data import load_sts_regressor


def write(folder: Path, grade: float = 5) -> None:
    (folder / "stsb").mkdir(exist_ok=True)
    for part, count in (("train", 4), ("dev", 3), ("test", 2)):
        lines = [f"{number}\tsentence {number}\tanother {number}" for number in range(count - 1)]
        lines.append(f"{grade}\ta {part}\tb")
        (folder / "stsb" / f"{part}.tsv").write_text("\n".join(lines), encoding="utf-8")


def test_the_tasks_of_a_folder(tmp_path: Path) -> None:
    write(tmp_path)
    data = load_sts_regressor(tmp_path)
    assert list(data.tasks) == ["stsb"]
    assert data.tasks["stsb"].counts == {"train": 4, "dev": 3, "test": 2}
    assert sum(len(side) for side in data.tasks["stsb"].texts()) == 18


def test_a_grade_above_5_names_the_pair(tmp_path: Path) -> None:
    write(tmp_path, grade=6)
    with pytest.raises(UserError, match=r"train.tsv: pair 4 \('a train'\) has the score 6"):
        load_sts_regressor(tmp_path)


def test_a_task_without_a_training_set(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(UserError, match="the regressor has no task 'sts12'"):
        load_sts_regressor(tmp_path, ["sts12"])
