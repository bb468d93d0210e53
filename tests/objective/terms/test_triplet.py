"""The triplet term: the loss of its rows, what the log shows, and data without hard negatives."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from opencse.errors import UserError
from opencse.objective.losses.graded import triplet
from opencse.objective.objective import Objective
from opencse.objective.terms.triplet import Triplet
from opencse.objective.vectors.step import Representations
from opencse.objective.views.pair import Pair
from opencse.progress import Silent
from opencse.runs.job import TrainJob
from opencse.text.given import open_texts


def test_the_loss_and_the_share_inside_the_margin() -> None:
    random = torch.Generator().manual_seed(1)
    anchor, positive = torch.randn(2, 5, 4, generator=random)
    hard = torch.randn(5, 2, 4, generator=random)
    reps = Representations.of(anchor, positive, hard)
    losses = set()
    for settings in ({}, {"margin": 0.2}, {"distance": "cosine"}, {"distance": "manhattan"}):
        term = Triplet(Triplet.Settings.model_validate(settings))
        expected = triplet(anchor, positive, hard, margin=term.settings.margin, distance=term.settings.distance)
        torch.testing.assert_close(term.loss(reps), expected)
        losses.add(round(float(expected), 6))
        rows = [
            float(triplet(anchor[i : i + 1], positive[i : i + 1], hard[i : i + 1, h : h + 1],
                          margin=term.settings.margin, distance=term.settings.distance)) > 0
            for i in range(5) for h in range(2)
        ]  # fmt: skip
        assert float(term.diagnose(reps)["triplets_inside"]) == pytest.approx(sum(rows) / 10)
    assert len(losses) == 4, "every setting changes the loss"


def test_data_without_hard_negatives_is_refused(tiny_folder: Path) -> None:
    pairs = open_texts([("A cat.", "A kitten."), ("Rain.", "A train.")])
    job = TrainJob(text=pairs, recipe="triplet", model=str(tiny_folder), settings=("data.max_length=32",), dev=None)
    with pytest.raises(UserError, match="the triplet term needs a hard negative in each row"):
        job.prepare(Silent())
    with pytest.raises(UserError, match="above 2, the largest cosine distance"):
        Objective(Pair(), terms=[Triplet(Triplet.Settings(distance="cosine", margin=2.5))])
