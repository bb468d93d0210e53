"""Several data sets in one run: which one each step works on, and that such a run continues bit for bit."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

from helpers import Broken, Stopped, resumed_is_whole
from opencse.errors import InterruptedRunError
from opencse.progress import Silent
from opencse.runs.run import Run
from opencse.text.given import open_texts
from opencse.training.schedule import MixingPlan

SETTINGS = (
    "training.epochs=10",
    "training.max_steps=12",
    "training.batch_size=4",
    "training.checkpoint_every=3",
    "training.log_every=1",
    "training.learning_rate=1e-3",
    "training.precision=float32",
    "data.max_length=24",
)


def test_by_proportion_every_step_of_every_set_comes_once_an_epoch() -> None:
    mixture = MixingPlan([5, 2, 1], "proportional", seed=3)
    assert mixture.steps_per_epoch == 8
    for epoch in range(3):
        steps = [mixture.at(8 * epoch + step) for step in range(8)]
        assert sorted(steps) == [(k, epoch * n + own) for k, n in enumerate((5, 2, 1)) for own in range(n)]
        for number in range(3):  # a data set's own steps come in their order
            assert [own for k, own in steps if k == number] == sorted(own for k, own in steps if k == number)
    orders = {tuple(mixture.at(8 * epoch + step)[0] for step in range(8)) for epoch in range(6)}
    assert len(orders) > 1, "another order every epoch"


def job(model: Path, sentences: list[str], *settings: str) -> Run:
    """Triples with hard negatives, plain sentences, and pairs with classes: three objectives, one with weights."""
    triples = open_texts([(sentences[i], sentences[i + 20], sentences[i + 40]) for i in range(20)])
    classes = open_texts([(sentences[i], sentences[i + 9], f"class {i % 3}") for i in range(60, 72)])
    also = ((open_texts(sentences[100:120]), "simcse"), (classes, "sbert"))
    every = (*SETTINGS, *settings)
    return Run(text=triples, recipe="simcse-supervised", model=str(model), settings=every, dev=None, also=also)


def files(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in ("model.safetensors", "metrics.jsonl")}


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [("training.chunk=3",), ("mixing=round_robin", "training.accumulate=2")],
    ids=["proportional", "turns"],
)
def test_resumed_is_uninterrupted(
    settings: tuple[str, ...], tiny_folder: Path, tmp_path: Path, sentences: list[str]
) -> None:
    run = job(tiny_folder, sentences, *settings)
    whole = resumed_is_whole(run, tmp_path, Broken(8))
    with pytest.raises(InterruptedRunError):
        run.train(tmp_path / "stopped", progress=Stopped(5))
    saved = load_file(tmp_path / "stopped" / "checkpoint" / "tensors.safetensors")
    assert any(name.startswith("data_set_3.") and "classifier" in name for name in saved)
    run.train(tmp_path / "stopped", resume=True)
    assert files(tmp_path / "stopped").items() <= whole.items()
    lines = [json.loads(line) for line in whole["metrics.jsonl"].splitlines()]
    assert [line["step"] for line in lines] == list(range(1, 13))
    assert {line["data_set"] for line in lines} == {1, 2, 3}
    assert all(("loss_softmax" in line) is (line["data_set"] == 3) for line in lines)


def test_every_example_is_seen_once_an_epoch_and_the_first_set_is_as_alone(
    tiny_folder: Path, sentences: list[str]
) -> None:
    run = job(tiny_folder, sentences).open(Silent())
    assert run.mixture is not None
    assert run.mixture.steps == (5, 5, 3)
    seen: dict[int, Counter[int]] = {0: Counter(), 1: Counter(), 2: Counter()}
    sets = [one.batches for one in run.sets]
    for step in range(run.mixture.steps_per_epoch):
        number, own = run.mixture.at(step)
        seen[number].update(sets[number].batch(own).tolist())
    assert [set(counter.values()) for counter in seen.values()] == [{1}, {1}, {1}]
    assert [len(counter) for counter in seen.values()] == [20, 20, 12]
    second = run.sets[1]
    assert second.inputs.build(np.arange(4), 0).noise_seed != run.inputs.build(np.arange(4), 0).noise_seed


def test_weights_and_steps_of_an_epoch(tiny_folder: Path, sentences: list[str]) -> None:
    sets = '[{name="more", weight=0.5, batch_size=2, objective={view={kind="dropout"}}}, {name="again", weight=2}]'
    triples = open_texts([(sentences[i], sentences[i + 20], sentences[i + 40]) for i in range(20)])
    run = Run(
        text=triples,
        recipe="simcse-supervised",
        model=str(tiny_folder),
        settings=(*SETTINGS, f"datasets={sets}", "training.max_steps=1000", "training.epochs=2"),
        dev=None,
        also=((open_texts(sentences[100:120]), None), (triples, None)),
    ).open(Silent())
    assert run.mixture is not None
    assert run.mixture.steps == (5, 5, 10)
    assert run.steps == 40
    lines = run.describe()
    also = "also       more: 20 given sentences, 20 rows of 1 text; 5 steps of batch 2 per epoch; objective "
    assert any(line.startswith(also) and line.count("objective") == 1 for line in lines)
    assert any(line.startswith("mixing     by proportion") and "5 steps of the text" in line for line in lines)
    assert any("60 examples of 3 data sets are 20 batches per epoch, so 2.00 epochs" in line for line in lines)
