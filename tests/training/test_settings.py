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


def test_the_seeds_of_order_and_dropout_are_the_run_s_unless_set() -> None:
    plain, apart = TrainingSettings(seed=5), TrainingSettings(seed=5, data_seed=0, dropout_seed=7)
    assert (plain.seed_of_order, plain.seed_of_dropout, plain.seeds_in_words) == (5, 5, "seed 5")
    assert (apart.seed_of_order, apart.seed_of_dropout) == (0, 7)
    assert apart.seeds_in_words == "seed 5 (data order 0, dropout 7)"
