"""The [training] table: how many steps a budget gives."""

from __future__ import annotations

from typing import Any

import pytest

from opencse.training.settings import TrainingSettings


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({}, 100),
        ({"epochs": 0.25}, 25),
        ({"epochs": 2, "accumulate": 4}, 50),
        ({"epochs": 3, "max_steps": 120}, 120),
        ({"tokens": 5_000}, 50),
        ({"tokens": 5_000, "epochs": 9}, 50),
        ({"minutes": 2}, 240),
        ({"minutes": 2, "tokens": 5_000}, 50),
        ({"epochs": 0.001}, 1),
    ],
    ids=str,
)
def test_the_smallest_budget_counts(settings: dict[str, Any], steps: int) -> None:
    table = TrainingSettings.model_validate(settings)
    assert table.steps(batches_per_epoch=100, tokens_per_epoch=10_000, seconds_per_step=0.5) == steps


def test_minutes_need_the_pace() -> None:
    with pytest.raises(ValueError, match="needs the measured pace"):
        TrainingSettings(minutes=1).steps(batches_per_epoch=1, tokens_per_epoch=1)
