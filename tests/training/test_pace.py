"""Budgets of a run: epochs, tokens, minutes, steps; and that measuring the pace leaves no trace in the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import opencse.runs.prepare as prepare_module
from helpers import Stopped
from opencse.errors import InterruptedRunError, UserError
from opencse.objective.inputs import InputBuilder
from opencse.objective.objective import Objective
from opencse.objective.vectors.step import StepInputs
from opencse.progress import Silent
from opencse.runs.job import TrainJob
from opencse.runs.prepare import Prepared
from opencse.text import sample
from opencse.text.readers import Source
from opencse.training.pace import mean_seconds_per_step, seconds_per_step
from opencse.training.settings import TrainingSettings

pytestmark = pytest.mark.slow

pytestmark = pytest.mark.usefixtures("timed_as_for_users")

QUICK = (
    "training.batch_size=8",
    "training.log_every=1",
    "training.checkpoint_every=5",
    "training.learning_rate=1e-3",
    "training.weight_decay=0.1",
    "training.precision=float32",
    "encoder.pooling=mean",
    'objective.terms=[{kind="mlm"}]',
)


def job(model: Path, *settings: str) -> TrainJob:
    return TrainJob(
        text=Source(str(sample.TRAIN)), model=str(model), settings=(*QUICK, *settings), dev=None, device="cpu"
    )


def measured(prepared: Prepared, settings: TrainingSettings) -> float:
    return seconds_per_step(
        prepared.encoder, prepared.objective, prepared.inputs, prepared.batches, settings, prepared.plan.precision
    )


def test_measuring_the_pace_changes_no_weight(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = job(tiny_folder, 'encoder.head.kind="mlp"').prepare(Silent())
    settings = prepared.plan.recipe.training
    before = {name: tensor.clone() for name, tensor in prepared.encoder.state_dict().items()}
    assert any("projection" in name for name in before)
    assert any("lm_head" in name for name in before)
    gradients: list[float] = []
    steps: list[int] = []
    stepped = torch.optim.AdamW.step
    build = InputBuilder.build

    def step(self: torch.optim.AdamW) -> None:
        weights = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
        gradients.append(sum(float(p.grad.abs().sum()) for p in weights))
        stepped(self)

    def note(self: InputBuilder, rows: NDArray[np.int64], at: int) -> StepInputs:
        steps.append(at)
        return build(self, rows, at)

    def after_backward(self: Objective, encoder: object, inputs: object, reps: object) -> None:
        self.get_buffer("seen").add_(1)

    prepared.objective.register_buffer("seen", torch.tensor(7))
    monkeypatch.setattr(torch.optim.AdamW, "step", step)
    monkeypatch.setattr(InputBuilder, "build", note)
    monkeypatch.setattr(Objective, "after_backward", after_backward)
    seconds = measured(prepared, settings)
    assert 0 < seconds < 5
    assert prepared.objective.state_dict()["seen"] == 7, "the parts' state is put back"
    assert len(gradients) == 14
    assert min(gradients) > 0, "whole steps were timed"
    epoch = prepared.batches.steps_per_epoch
    assert min(steps) == 0
    assert max(steps) == epoch - 1, "over the whole epoch: batches of tokens differ"
    assert steps != sorted(steps)
    after = prepared.encoder.state_dict()
    assert after.keys() == before.keys()
    assert [name for name in before if not torch.equal(before[name], after[name])] == []
    assert all(p.grad is None for p in prepared.encoder.parameters())


def test_the_mean_is_over_the_timed_steps_alone(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that a step moves by 3 s, and a slow first step by 100 s, the pace is 3 s."""
    prepared = job(tiny_folder).prepare(Silent())
    clock = [0.0]
    build = InputBuilder.build
    paces = iter([100.0, 3.0, *[3.0] * 12])

    def tick(self: InputBuilder, rows: NDArray[np.int64], at: int) -> StepInputs:
        clock[0] += next(paces)
        return build(self, rows, at)

    monkeypatch.setattr(InputBuilder, "build", tick)
    monkeypatch.setattr("opencse.training.pace.time.perf_counter", lambda: clock[0])
    assert measured(prepared, prepared.plan.recipe.training) == pytest.approx(3.0)


def pace_of(monkeypatch: pytest.MonkeyPatch, pace: float) -> list[float]:
    """Lets the pace be measured, with all it does to the state of the process, and answers ``pace``."""
    calls: list[float] = []

    def fixed(*how: Any) -> float:
        calls.append(mean_seconds_per_step(*how))
        return pace

    monkeypatch.setattr(prepare_module, "mean_seconds_per_step", fixed)
    return calls


def test_few_seconds_are_measured_by_fewer_steps(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = job(tiny_folder).prepare(Silent())
    clock = [0.0]
    build = InputBuilder.build

    def tick(self: InputBuilder, rows: NDArray[np.int64], at: int) -> StepInputs:
        clock[0] += 2.0
        return build(self, rows, at)

    monkeypatch.setattr(InputBuilder, "build", tick)
    monkeypatch.setattr("opencse.training.pace.time.perf_counter", lambda: clock[0])
    plan = prepared.with_time(3.0)
    assert plan.seconds_per_step == 2.0
    assert clock[0] == 2.0 * (2 + 2)  # two to warm up, and two until more than three seconds have passed
    (line,) = [line for line in plan.lines() if line.startswith("time")]
    assert (
        line
        == f"time       about {2 * plan.steps / 60:,.0f} minutes for the steps on this machine (2 s each, measured)"
    )
    assert not any(line.startswith("time") for line in prepared.plan.lines())


def files(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in ("model.safetensors", "metrics.jsonl")}


def test_a_run_by_minutes_is_the_run_by_as_many_steps(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = pace_of(monkeypatch, 0.5)
    job(tiny_folder, "training.minutes=0.1").run(tmp_path / "minutes")
    assert len(calls) == 1
    job(tiny_folder, "training.max_steps=12").run(tmp_path / "steps")
    assert len(calls) == 1, "nothing to measure without a budget of time"
    assert files(tmp_path / "minutes") == files(tmp_path / "steps")
    lines = [json.loads(line) for line in (tmp_path / "minutes" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, 13))
    assert lines[0]["learning_rate"] == 1e-3
    assert lines[-1]["learning_rate"] == pytest.approx(1e-3 / 12), "the schedule ends with the run"
    assert json.loads((tmp_path / "minutes" / "run.json").read_text())["steps"] == 12


def test_a_resumed_run_keeps_its_steps_whatever_the_pace_is_then(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pace_of(monkeypatch, 0.5)
    run = job(tiny_folder, "training.minutes=0.1")
    run.run(tmp_path / "whole")
    first = Stopped(7)
    with pytest.raises(InterruptedRunError, match="step 7 of 12"):
        run.run(tmp_path / "stopped", progress=first)
    assert "pace       0.500 s per step, measured" in first.said
    calls = pace_of(monkeypatch, 0.05)
    second = Stopped(-1)
    run.run(tmp_path / "stopped", resume=True, progress=second)
    assert calls == []
    assert any("steps      12 of batch 8" in line for line in second.said)
    assert files(tmp_path / "stopped") == files(tmp_path / "whole")
    with pytest.raises(UserError, match=r"another recipe\.training\.minutes \(0\.1 then, 0\.2 now\)"):
        job(tiny_folder, "training.minutes=0.2").run(tmp_path / "stopped", resume=True)


def test_a_budget_of_tokens_reads_about_as_many(tiny_folder: Path) -> None:
    prepared = job(tiny_folder, "training.tokens=20_000").prepare(Silent())
    steps = prepared.plan.steps
    assert steps < prepared.batches.steps_per_epoch
    read = sum(int(prepared.inputs.lengths[prepared.batches.batch(step)].sum()) for step in range(steps))
    assert read == pytest.approx(20_000, rel=0.05)
    rows = [prepared.inputs.build(prepared.batches.batch(step), step).tokens for step in range(2)]
    real = sum(int(tokens.attention_mask.sum()) for tokens in rows)
    assert real == sum(int(prepared.inputs.lengths[prepared.batches.batch(step)].sum()) for step in range(2))
