"""Runs with DCL and Barlow Twins: alone and with contrast, their numbers in the log, resumed as uninterrupted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from helpers import Stopped
from opencse import SentenceEncoder
from opencse.errors import InterruptedRunError
from opencse.progress import Silent
from opencse.runs.job import TrainJob
from opencse.text import sample
from opencse.text.readers import Source

pytestmark = pytest.mark.slow

SETTINGS = (
    "training.max_steps=12",
    "training.batch_size=8",
    "training.evaluate_every=6",
    "training.log_every=1",
    "training.learning_rate=1e-3",
    "training.precision=float32",
    "encoder.pooling=mean",
)
ALONE = "objective.negatives=[]"
DCL = 'objective.terms=[{ kind = "dcl" }]'
REFERENCE = 'objective.terms=[{ kind = "dcl", scaling = "reference" }]'
TWINS = 'objective.terms=[{ kind = "barlow_twins", artificial = 6 }]'
BOTH = 'objective.terms=[{ kind = "dcl" }, { kind = "barlow_twins", artificial = 6, centre = true }]'


def job(model: Path, *settings: str, dev: str | None = None) -> TrainJob:
    return TrainJob(
        text=Source(str(sample.TRAIN)), model=str(model), settings=(*SETTINGS, *settings), dev=dev, device="cpu"
    )


def lines(folder: Path) -> list[dict[str, Any]]:
    every = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in every if "loss" in line]


@pytest.mark.parametrize("term", [REFERENCE, TWINS])
def test_a_term_alone_trains_a_plain_encoder(term: str, tiny_folder: Path, tmp_path: Path) -> None:
    """As in SimCSE++, Table 4: no contrast, and the loss falls."""
    result = job(tiny_folder, term, ALONE, "training.max_steps=30", "training.schedule=constant").run(tmp_path / "run")
    logged = lines(result.folder)
    name = "barlow_twins" if term == TWINS else "dcl"
    assert logged[0]["loss"] == logged[0][f"loss_{name}"]
    assert "loss_contrast" not in logged[0]
    assert "positive_similarity" not in logged[0]
    assert [line["step"] for line in logged] == list(range(1, 31))
    first, last = (sum(line["loss"] for line in part) / 5 for part in (logged[:5], logged[-5:]))
    assert last < (0.9999 if term == REFERENCE else 0.95) * first
    assert result.kept == "last"
    assert result.verdict.startswith(f"loss {logged[0]['loss']:.3f} at the first step")
    encoder = SentenceEncoder.load(result.folder, device="cpu")
    assert encoder.dimension == 32
    assert encoder.lm_head is None
    assert "cls.predictions.bias" not in load_file(result.folder / "model.safetensors")


def test_the_ranks_are_in_the_log(tiny_folder: Path, tmp_path: Path) -> None:
    """H = 32, 8 examples a batch, 6 artificial rows; the 500 lines of the sample leave a smaller last batch."""
    job(tiny_folder, BOTH).run(tmp_path / "run")
    logged = lines(tmp_path / "run")
    assert {line["dcl_rank"] for line in logged} == {7.0}
    assert {line["barlow_twins_rank"] for line in logged} == {13.0}
    assert all(line["loss_dcl"] > 0 and line["loss_barlow_twins"] > 0 for line in logged)
    for line in logged:
        total = line["loss_contrast"] + line["loss_dcl"] + line["loss_barlow_twins"]
        assert line["loss"] == pytest.approx(total)


def test_looking_at_the_ranks_changes_nothing(tiny_folder: Path, tmp_path: Path) -> None:
    """The log draws artificial rows of its own; however often it is written, the run is the same."""
    ends = []
    for every in (1, 100):
        folder = tmp_path / str(every)
        job(tiny_folder, BOTH, f"training.log_every={every}").run(folder)
        ends.append((folder / "model.safetensors").read_bytes())
        assert len(lines(folder)) == (12 if every == 1 else 2)
    assert ends[0] == ends[1]


def test_stopped_and_resumed_is_the_uninterrupted_run(tiny_folder: Path, tmp_path: Path) -> None:
    training = job(tiny_folder, BOTH)
    training.run(tmp_path / "whole")
    with pytest.raises(InterruptedRunError, match="step 5"):
        training.run(tmp_path / "stopped", progress=Stopped(5))
    training.run(tmp_path / "stopped", resume=True)
    for name in ("model.safetensors", "metrics.jsonl"):
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    start = load_file(tiny_folder / "model.safetensors")
    end = load_file(tmp_path / "whole" / "model.safetensors")
    name = "encoder.layer.0.attention.self.query.weight"
    assert not torch.equal(end[name], start[f"bert.{name}"])


def test_artificial_rows_follow_the_seed(tiny_folder: Path) -> None:
    """The rows are a function of (seed, step)."""
    losses = []
    for seed in (1, 1, 2):
        prepared = job(tiny_folder, TWINS, f"training.seed={seed}", "encoder.dropout=0").prepare(Silent())
        for step in (0, 1):
            inputs = prepared.inputs.build(torch.arange(8).numpy(), step)
            reps = prepared.objective.represent(prepared.encoder.eval(), inputs)
            losses.append(prepared.objective(reps).losses["barlow_twins"].item())
    assert losses[:2] == losses[2:4]
    assert len(set(losses)) == 4
