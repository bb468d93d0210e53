"""Evaluations during training: averages with the start, patience, and which weights are remembered."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import Distance, Heard, Stopped, write_lines
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import InterruptedRunError
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.processes import ALONE
from opencse.runs.record import RunRecord
from opencse.runs.run import Run
from opencse.text.readers import Source
from opencse.training.callbacks import Callback, MetricsLog
from opencse.training.evaluations import Evaluations, average, points_between
from opencse.training.settings import TrainingSettings


@pytest.fixture
def encoder(tiny_folder: Path) -> SentenceEncoder:
    return SentenceEncoder.load(tiny_folder, device="cpu")


def evaluations(encoder: SentenceEncoder, folder: Path, dev: Distance | None, **settings: Any) -> Evaluations:
    return Evaluations(
        encoder=encoder,
        objective=Objective.from_settings(ObjectiveSettings()),
        settings=TrainingSettings(**settings),
        dev=dev,
        world=ALONE,
        metrics=MetricsLog(folder / "metrics.jsonl"),
        progress=Heard(),
    )


SETTINGS = (
    "training.max_steps=4",
    "training.batch_size=4",
    "training.evaluate_every=2",
    "training.precision=float32",
    "training.learning_rate=1e-3",
    "encoder.pooling=mean",
)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.1, 1.0), st.floats(0.1, 1.0))
def test_a_point_made_from_another_average_is_that_of_the_weights_themselves(share: float, other: float) -> None:
    draw = torch.Generator().manual_seed(1)
    start, trained = ({"w": torch.randn(5, generator=draw), "n": torch.tensor([3])} for _ in range(2))
    from_average = dict(points_between(start, average(start, trained, share), share, [other, share]))
    assert set(from_average) == {other} - {share}
    for one, weights in from_average.items():
        torch.testing.assert_close(weights["w"], average(start, trained, one)["w"], atol=1e-4, rtol=1e-4)
        assert weights["n"].tolist() == [3]


@pytest.fixture
def run(tiny_folder: Path, sentences: list[str], tmp_path: Path) -> Callable[..., Heard]:
    write_lines(tmp_path / "text.txt", sentences[:24])

    def make(dev: Distance, out: str, *more: str, callbacks: tuple[Callback, ...] = ()) -> Heard:
        text, progress = Source(str(tmp_path / "text.txt")), Heard()
        settings = (*SETTINGS, *more)
        job = Run(text=text, model=str(tiny_folder), settings=settings, dev=dev, device="cpu")
        job = replace(job, callbacks=callbacks)
        job.train(tmp_path / out, progress=progress)
        return progress

    return make


def moved(dev: Distance, folder: Path) -> float:
    return -dev.score(SentenceEncoder.load(folder, device="cpu")).value


@pytest.mark.slow
def test_the_point_between_that_scores_best_is_kept(run: Callable[..., Heard], tmp_path: Path) -> None:
    full = Distance(best_at=1e6)
    run(full, "full")
    way = 1e6 - moved(full, tmp_path / "full")
    assert way > 0.01
    dev = Distance(best_at=0.27 * way)
    told = run(dev, "out", "training.averages_at_end=[0.75,0.5,0.25]", "training.evaluate_every=4")
    assert [line for line in told.said if line.startswith("average")][-1].startswith(
        "average    the model of step 4, averaged with the start (25% trained)"
    )
    assert moved(dev, tmp_path / "out") == pytest.approx(0.02 * way, rel=0.05)
    last = SentenceEncoder.load(tmp_path / "out" / "last", device="cpu").state_dict()
    unchanged = SentenceEncoder.load(tmp_path / "full" / "last", device="cpu").state_dict()
    assert all(torch.equal(last[name], unchanged[name]) for name in unchanged), "the last weights are not averaged"


PATIENCE_SETTINGS = (
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
def job(tiny_folder: Path, sentences: list[str], tmp_path: Path) -> Callable[..., Run]:
    write_lines(tmp_path / "text.txt", sentences[:24])

    def make(dev: Distance, *settings: str) -> Run:
        text = Source(str(tmp_path / "text.txt"))
        return Run(text=text, model=str(tiny_folder), settings=(*PATIENCE_SETTINGS, *settings), dev=dev, device="cpu")

    return make


def test_it_ends_after_as_many_evaluations_without_a_new_best(job: Callable[..., Run], tmp_path: Path) -> None:
    result = job(Distance(), "training.patience=3").train(tmp_path / "out")
    assert [*result.scores] == [0, 2, 4, 6, 8]
    assert result.verdict == "step 2 is kept"
    record = RunRecord.read(tmp_path / "out" / "run.json")
    assert record.result is not None
    assert (record.steps, record.result.steps, record.result.settled, record.ended_early) == (30, 8, True, False)
    again = job(Distance(), "training.patience=3").train(tmp_path / "out", resume=True)
    assert again.verdict == result.verdict, "the run had finished"


@pytest.mark.slow
@pytest.mark.parametrize("stop", [7, 8])
def test_stopped_and_resumed_it_ends_at_the_same_step(job: Callable[..., Run], tmp_path: Path, stop: int) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    settings = ("training.patience=3", "training.checkpoint_every=2" if stop == 8 else "training.checkpoint_every=3")
    job(Distance(), *settings).train(one)
    message = f"stopped after step {stop}" if stop < 8 else "is complete, and --resume adds what is missing"
    with pytest.raises(InterruptedRunError, match=message):
        job(Distance(), *settings).train(other, progress=Stopped(stop))
    job(Distance(), *settings).train(other, resume=True)
    for name in ("model.safetensors", "last/model.safetensors", "metrics.jsonl"):
        assert (one / name).read_bytes() == (other / name).read_bytes()
    steps = [json.loads(line)["step"] for line in (one / "metrics.jsonl").read_text().splitlines()]
    assert max(steps) == 8
