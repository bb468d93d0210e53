"""Data order and dropout have seeds of their own, and unset ones are the run's."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from opencse.progress import Silent
from opencse.runs.run import Run as TrainRun
from opencse.text.given import GivenTexts

TEXT = GivenTexts(tuple((f"Sentence number {n} is short.",) for n in range(24)))
QUICK = ("training.max_steps=3", "training.batch_size=4", "training.precision=float32", "training.learning_rate=1e-2")
Run = tuple[list[list[int]], dict[str, torch.Tensor]]


def run(model: Path, folder: Path, *settings: str) -> Run:
    """The batches of a run, and its last weights."""
    prepared = TrainRun(text=TEXT, model=str(model), settings=(*QUICK, *settings), dev=None).open(Silent())
    folder.mkdir(parents=True)
    prepared.trainer(folder, Silent()).run(resume=False)
    batches = [prepared.batches.batch(step).tolist() for step in range(3)]
    return batches, {name: tensor.clone() for name, tensor in prepared.encoder.state_dict().items()}


def equal(a: Run, b: Run) -> bool:
    return all(torch.equal(tensor, b[1][name]) for name, tensor in a[1].items())


@pytest.mark.slow
def test_each_seed_moves_what_it_names(tiny_folder: Path, tmp_path: Path) -> None:
    def made(name: str, *settings: str) -> Run:
        return run(tiny_folder, tmp_path / name, "training.seed=1", *settings)

    plain = made("plain")
    assert equal(plain, made("named", "training.data_seed=1", "training.dropout_seed=1"))
    order, dropout = made("order", "training.data_seed=2"), made("dropout", "training.dropout_seed=2")
    assert order[0] != plain[0]
    assert dropout[0] == plain[0]
    assert not equal(order, plain)
    assert not equal(dropout, plain)
