"""Budgets of a run: epochs, tokens, minutes, steps; and that measuring the pace leaves no trace in the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import opencse.runs.setup as run_setup
from helpers import Stopped, rows_in
from opencse.errors import InterruptedRunError, UserError
from opencse.progress import Silent
from opencse.runs.run import Run
from opencse.text import sample
from opencse.text.readers import Source
from opencse.training.schedule import seconds_per_step
from opencse.training.settings import TrainingSettings

pytestmark = pytest.mark.in_full

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


def job(model: Path, *settings: str) -> Run:
    return Run(text=Source(str(sample.TRAIN)), model=str(model), settings=(*QUICK, *settings), dev=None, device="cpu")


def measured(prepared: Run, settings: TrainingSettings) -> float:
    return seconds_per_step(prepared.encoder, prepared.sets[0], settings, prepared.precision)


@pytest.mark.slow
def test_measuring_the_pace_changes_no_weight(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = job(tiny_folder, 'encoder.head.kind="mlp"').open(Silent())
    before = {name: tensor.clone() for name, tensor in prepared.encoder.state_dict().items()}
    moved: list[float] = []
    stepped = torch.optim.AdamW.step

    def step(self: torch.optim.AdamW) -> None:
        grads = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
        moved.append(sum(float(grad.abs().sum()) for grad in grads))
        stepped(self)

    monkeypatch.setattr(torch.optim.AdamW, "step", step)
    assert 0 < measured(prepared, prepared.start.recipe.training) < 5
    assert len(moved) == 14
    assert min(moved) > 0, "whole steps were timed"
    after = prepared.encoder.state_dict()
    assert [name for name in before if not torch.equal(before[name], after[name])] == []
    assert all(p.grad is None for p in prepared.encoder.parameters())


def pace_of(monkeypatch: pytest.MonkeyPatch, pace: float) -> list[float]:
    """Lets the pace be measured, with all it does to the state of the process, and answers ``pace``."""
    calls: list[float] = []

    def fixed(*how: Any) -> float:
        calls.append(seconds_per_step(*how))
        return pace

    monkeypatch.setattr(run_setup, "seconds_per_step", fixed)
    return calls


def files(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in ("model.safetensors", "metrics.jsonl")}


@pytest.mark.slow
def test_a_resumed_run_keeps_its_steps_whatever_the_pace_is_then(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pace_of(monkeypatch, 0.5)
    run = job(tiny_folder, "training.minutes=0.1")
    run.train(tmp_path / "whole")
    first = Stopped(7)
    with pytest.raises(InterruptedRunError, match="step 7 of 12"):
        run.train(tmp_path / "stopped", progress=first)
    assert "pace       0.500 s per step, measured" in first.said
    calls = pace_of(monkeypatch, 0.05)
    second = Stopped(-1)
    run.train(tmp_path / "stopped", resume=True, progress=second)
    assert calls == []
    assert any("steps      12 of batch 8" in line for line in second.said)
    assert files(tmp_path / "stopped") == files(tmp_path / "whole")
    lines = rows_in(tmp_path / "whole" / "metrics.jsonl")
    assert lines[-1]["learning_rate"] == pytest.approx(1e-3 / 12), "the schedule ends with the run"
    with pytest.raises(UserError, match=r"another recipe\.training\.minutes \(0\.1 then, 0\.2 now\)"):
        job(tiny_folder, "training.minutes=0.2").train(tmp_path / "stopped", resume=True)


def test_a_budget_of_tokens_reads_about_as_many(tiny_folder: Path) -> None:
    prepared = job(tiny_folder, "training.tokens=20_000").open(Silent())
    steps = prepared.steps
    assert steps < prepared.batches.steps_per_epoch
    read = sum(int(prepared.inputs.lengths[prepared.batches.batch(step)].sum()) for step in range(steps))
    assert read == pytest.approx(20_000, rel=0.05)
    rows = [prepared.inputs.build(prepared.batches.batch(step), step).tokens for step in range(2)]
    real = sum(int(tokens.attention_mask.sum()) for tokens in rows)
    assert real == sum(int(prepared.inputs.lengths[prepared.batches.batch(step)].sum()) for step in range(2))
