"""Training that ends where the held-out questions stop gaining."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers import Distance, Stopped
from opencse.errors import InterruptedRunError
from opencse.runs.job import TrainJob
from opencse.runs.record import RunRecord
from opencse.text.readers import Source

SETTINGS = (
    "training.max_steps=30",
    "training.epochs=100",
    "training.batch_size=4",
    "training.checkpoint_every=3",
    "training.evaluate_every=2",
    "training.precision=float32",
    "training.schedule=constant",
    "encoder.pooling=mean",
)


@pytest.fixture
def job(tiny_folder: Path, sentences: list[str], tmp_path: Path) -> Callable[..., TrainJob]:
    (tmp_path / "text.txt").write_text("\n".join(sentences[:24]) + "\n")

    def make(dev: Distance, *settings: str) -> TrainJob:
        text = Source(str(tmp_path / "text.txt"))
        return TrainJob(text=text, model=str(tiny_folder), settings=(*SETTINGS, *settings), dev=dev, device="cpu")

    return make


def test_it_ends_after_as_many_evaluations_without_a_new_best(job: Callable[..., TrainJob], tmp_path: Path) -> None:
    result = job(Distance(), "training.patience=3").run(tmp_path / "out")
    assert [*result.scores] == [0, 2, 4, 6, 8]
    assert result.verdict == "step 2 is kept"
    record = RunRecord.read(tmp_path / "out" / "run.json")
    assert record.result is not None
    assert (record.steps, record.result.steps, record.result.settled, record.ended_early) == (30, 8, True, False)
    again = job(Distance(), "training.patience=3").run(tmp_path / "out", resume=True)
    assert again.verdict == result.verdict, "the run had finished"


def test_a_later_best_counts_anew(job: Callable[..., TrainJob], tmp_path: Path) -> None:
    every = job(Distance()).run(tmp_path / "all")
    assert max(every.scores) == 30
    third = Distance(best_at=-every.scores[6])
    result = job(third, "training.patience=2").run(tmp_path / "out")
    assert [*result.scores] == [0, 2, 4, 6, 8, 10]
    assert result.verdict == "step 6 is kept"


def test_steps_that_the_guard_refuses_are_no_gain(job: Callable[..., TrainJob], tmp_path: Path) -> None:
    result = job(Distance(refuses_from=0.0), "training.patience=2").run(tmp_path / "out")
    assert [*result.scores] == [0, 2, 4]


@pytest.mark.parametrize("stop", [5, 7, 8])
def test_stopped_and_resumed_it_ends_at_the_same_step(job: Callable[..., TrainJob], tmp_path: Path, stop: int) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    settings = ("training.patience=3", "training.checkpoint_every=2" if stop == 8 else "training.checkpoint_every=3")
    job(Distance(), *settings).run(one)
    message = f"stopped after step {stop}" if stop < 8 else "is complete, and --resume adds what is missing"
    with pytest.raises(InterruptedRunError, match=message):
        job(Distance(), *settings).run(other, progress=Stopped(stop))
    job(Distance(), *settings).run(other, resume=True)
    for name in ("model.safetensors", "last/model.safetensors", "metrics.jsonl"):
        assert (one / name).read_bytes() == (other / name).read_bytes()
    steps = [json.loads(line)["step"] for line in (one / "metrics.jsonl").read_text().splitlines()]
    assert max(steps) == 8
