"""Evaluations during training: which weights are remembered, and what a checkpoint has of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from helpers import Distance, Heard
from opencse.adapting.selection import DevScore
from opencse.encoder.encoder import SentenceEncoder
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.processes import ALONE
from opencse.training.evaluations import Evaluations
from opencse.training.metrics import MetricsLog
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


def move(encoder: SentenceEncoder, by: float) -> None:
    """Makes the distance from the start ``by`` larger."""
    with torch.no_grad():
        weight = next(encoder.parameters())
        weight.view(-1)[0] += by


def test_the_average_that_scores_best_is_remembered_and_training_goes_on_from_its_weights(
    encoder: SentenceEncoder, tmp_path: Path
) -> None:
    dev = Distance(best_at=4.0)
    run = evaluations(encoder, tmp_path, dev, average_with_start=(1.0, 0.5), evaluate_every=2)
    run.add_start(dev.begin(encoder))
    move(encoder, 8.0)
    weights = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    run.evaluate(2)
    assert all(torch.equal(tensor, weights[name]) for name, tensor in encoder.state_dict().items())
    assert run.history.by_step[2].share == 0.5
    assert run.history.by_step[2].value == pytest.approx(0, abs=1e-3)
    encoder.load_state_dict(run.best)
    assert dev.score(encoder).value == pytest.approx(0, abs=1e-3)
    assert [line["step"] for line in run.metrics.read()] == [0, 2]


def test_evaluations_are_due_every_few_steps_and_settle_without_gain(encoder: SentenceEncoder, tmp_path: Path) -> None:
    dev = Distance()
    run = evaluations(encoder, tmp_path, dev, evaluate_every=3, patience=2)
    assert [step for step in range(1, 8) if run.is_due(step)] == [3, 6]
    run.add_start(dev.begin(encoder))
    for step, settled in ((3, False), (6, False), (9, True)):
        move(encoder, 1.0)
        run.evaluate(step)
        assert run.settled is settled
    assert run.history.best_step == 3


def test_without_dev_data_nothing_is_evaluated(encoder: SentenceEncoder, tmp_path: Path) -> None:
    run = evaluations(encoder, tmp_path, None, evaluate_every=1, averages_at_end=(0.5,))
    assert not run.is_due(1)
    run.evaluate(1)
    run.finish(1)
    assert (run.history.scores, run.best) == ({}, {})


def test_a_checkpoint_has_all_that_is_remembered(encoder: SentenceEncoder, tmp_path: Path) -> None:
    run = evaluations(encoder, tmp_path, Distance())
    run.history.add(0, DevScore(1.0))
    run.history.add(5, DevScore(2.0))
    run.better_encoder, run.best = 1, {"w": torch.ones(1)}
    again = evaluations(encoder, tmp_path, Distance())
    again.restore(run.best, run.plain())
    assert (again.history, again.better_encoder, again.best) == (run.history, 1, run.best)
    again.restore({}, {"history": run.history.plain()})
    assert again.better_encoder == 0, "an earlier version did not save it"
