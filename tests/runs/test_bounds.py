"""Settings that the data or another setting bounds are named in the plan, with what is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opencse.progress import Silent
from opencse.runs.bounds import Sizes, bounded_settings
from opencse.runs.job import TrainJob
from opencse.text import sample
from opencse.text.readers import Source
from opencse.training.settings import TrainingSettings

SIZES: dict[str, Any] = {
    "examples": 1_280,
    "batches_per_epoch": 20,
    "steps": 20,
    "batch_size": 64,
    "texts_per_step": 128,
    "stores": {},
    "evaluates": True,
}
FITS: dict[str, Any] = {"evaluate_every": 5, "checkpoint_every": 5}
CONSTANT: dict[str, Any] = {"schedule": "constant"}


@pytest.mark.parametrize(
    ("settings", "sizes", "told"),
    [
        ({}, {}, None),
        ({"max_steps": 20}, {}, None),
        ({"max_steps": 10}, {"steps": 10}, None),
        ({"max_steps": 60}, {}, "training.epochs = 1 allows 20 steps; set training.epochs = 3 for 60"),
        ({"max_steps": 60, "accumulate": 2}, {"steps": 10}, "allows 10 steps; set training.epochs = 6 for 60"),
        ({"max_steps": 60, "tokens": 9}, {}, "training.max_steps = 60 is not reached: training.tokens allows 20 steps"),
        ({"max_steps": 60, "minutes": 1.0}, {}, "training.minutes allows 20 steps"),
        ({"epochs": 2.0, "tokens": 9}, {}, "training.epochs = 2 is not used: training.tokens decides"),
        ({"epochs": 2.0, "tokens": 9, "minutes": 1.0}, {}, "training.epochs = 2 is not used: training.minutes"),
        ({"warmup": 0.01}, {}, "training.warmup = 0.01 of 20 steps rounds to no step"),
        ({"warmup": 0.1}, {}, None),
        (
            CONSTANT | {"rate_changes": ((5, 1e-4), (30, 1e-5), (40, 1e-6))},
            {},
            "from step 30 on are not reached: the run",
        ),
        (CONSTANT | {"rate_changes": ((5, 1e-4), (20, 1e-5))}, {}, None),
        ({"batch_size": 2_000}, {"batch_size": 1_280}, "is more than the 1,280 examples: all are in one batch"),
        ({"batch_size": 32, "batch_tokens": 500}, {}, "training.batch_size = 32 is not used"),
        ({"accumulate": 32}, {}, "training.accumulate = 32 is more than the 20 batches of an epoch"),
        ({"chunk": 128}, {}, "training.chunk = 128 is not less than the 128 texts of a batch"),
        ({"chunk": 64}, {}, None),
        ({"evaluate_every": 20}, {}, "the last step alone is evaluated"),
        ({"evaluate_every": 20}, {"evaluates": False}, None),
        ({"checkpoint_every": 125}, {}, "a kill loses the whole run"),
        ({}, {"stores": {"negatives.momentum_queue": 160}}, None),
        ({}, {"stores": {"negatives.momentum_queue": 5_000}}, "more than the 1,280 examples"),
        ({}, {"steps": 10, "stores": {"negatives.memory_bank": 1_000}}, "the run makes about 640: it is never full"),
    ],
)
def test_what_is_bounded_is_named(settings: dict[str, Any], sizes: dict[str, Any], told: str | None) -> None:
    said = {f"training.{name}" for name in settings}
    lines = bounded_settings(TrainingSettings(**(FITS | settings)), said, Sizes(**(SIZES | sizes)))
    assert len(lines) == (told is not None), lines
    if told is not None:
        assert told in lines[0]


def test_the_defaults_of_a_recipe_are_named_only_where_they_change_what_is_selected() -> None:
    training = TrainingSettings(checkpoint_every=125, evaluate_every=125, max_steps=400)
    (line,) = bounded_settings(training, (), Sizes(**SIZES))
    assert line.startswith("training.evaluate_every = 125")


def test_the_plan_says_it(tiny_folder: Path, sentences: list[str], tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("\n".join(sentences[:40]) + "\n")
    settings = ("training.max_steps=60", "training.batch_size=8", "encoder.pooling=mean")
    queue = 'objective.negatives=[{kind="in_batch"}, {kind="momentum_queue", size=500}]'
    text = Source(str(tmp_path / "text.txt"))
    job = TrainJob(text=text, model=str(tiny_folder), settings=(*settings, queue), dev=None, device="cpu")
    plan = job.prepare(Silent()).plan
    limits = [line for line in plan.lines() if line.startswith("limit ")]
    assert plan.steps == 5
    assert "training.max_steps = 60 is not reached: training.epochs = 1 allows 5 steps" in limits[0]
    assert "set training.epochs = 12 for 60" in limits[0]
    assert "negatives.momentum_queue stores 500 vectors, more than the 40 examples" in limits[1]


def test_the_bounds_of_a_preset_are_no_news() -> None:
    """The preset for the built-in encoder has an upper limit of steps, which little data does not reach."""
    cases: list[tuple[tuple[str, ...], list[str]]] = [
        ((), []),
        (("training.max_steps=399",), ["training.max_steps = 399 is not reached"]),
    ]
    for settings, expected in cases:
        job = TrainJob(text=Source(str(sample.PAIRS)), recipe="adapt", settings=settings, dev=None, device="cpu")
        plan = job.prepare(Silent()).plan
        assert plan.preset == "opencse-mini"
        assert [line[11:].split(":")[0] for line in plan.lines() if line.startswith("limit ")] == expected
