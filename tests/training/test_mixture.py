"""Several data sets in one run: which one each step works on, and that such a run continues bit for bit."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from helpers import Broken, Stopped
from opencse.errors import InterruptedRunError
from opencse.progress import Silent
from opencse.runs.job import TrainJob
from opencse.text.given import open_texts
from opencse.training.mixture import MixingPlan

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


def test_it_follows_from_the_step_and_the_seed_alone() -> None:
    forwards = [MixingPlan([9, 7], "proportional", seed=1).at(step) for step in range(40)]
    mixture = MixingPlan([9, 7], "proportional", seed=1)
    assert [mixture.at(step) for step in reversed(range(40))] == forwards[::-1]
    assert [MixingPlan([9, 7], "proportional", seed=2).at(step) for step in range(40)] != forwards


def test_in_turns_until_the_smallest_is_through() -> None:
    mixture = MixingPlan([5, 2, 9], "round_robin", seed=1)
    assert mixture.steps_per_epoch == 6
    assert [mixture.at(step) for step in range(7)] == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (0, 2)]


def job(model: Path, sentences: list[str], *settings: str) -> TrainJob:
    """Triples with hard negatives, plain sentences, and pairs with classes: three objectives, one with weights."""
    triples = open_texts([(sentences[i], sentences[i + 20], sentences[i + 40]) for i in range(20)])
    classes = open_texts([(sentences[i], sentences[i + 9], f"class {i % 3}") for i in range(60, 72)])
    also = ((open_texts(sentences[100:120]), "simcse"), (classes, "sbert"))
    every = (*SETTINGS, *settings)
    return TrainJob(text=triples, recipe="simcse-supervised", model=str(model), settings=every, dev=None, also=also)


def files(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in ("model.safetensors", "metrics.jsonl")}


@pytest.mark.parametrize(
    "settings",
    [("training.chunk=3",), ("mixing=round_robin", "training.accumulate=2")],
    ids=["proportional", "turns"],
)
def test_resumed_is_uninterrupted(
    settings: tuple[str, ...], tiny_folder: Path, tmp_path: Path, sentences: list[str]
) -> None:
    run = job(tiny_folder, sentences, *settings)
    run.run(tmp_path / "whole")
    with pytest.raises(InterruptedRunError):
        run.run(tmp_path / "killed", progress=Broken(8))
    job(tiny_folder, sentences, *settings).run(tmp_path / "killed", resume=True)
    with pytest.raises(InterruptedRunError):
        run.run(tmp_path / "stopped", progress=Stopped(5))
    saved = load_file(tmp_path / "stopped" / "checkpoint" / "tensors.safetensors")
    assert any(name.startswith("data_set_3.") and "classifier" in name for name in saved)
    run.run(tmp_path / "stopped", resume=True)
    whole = files(tmp_path / "whole")
    assert files(tmp_path / "killed") == whole
    assert files(tmp_path / "stopped") == whole
    lines = [json.loads(line) for line in whole["metrics.jsonl"].splitlines()]
    assert [line["step"] for line in lines] == list(range(1, 13))
    assert {line["data_set"] for line in lines} == {1, 2, 3}
    assert all(("loss_softmax" in line) is (line["data_set"] == 3) for line in lines)


def test_every_example_is_seen_once_an_epoch_and_the_first_set_is_as_alone(
    tiny_folder: Path, sentences: list[str]
) -> None:
    run = job(tiny_folder, sentences).prepare(Silent())
    assert run.mixture is not None
    assert run.mixture.steps == (5, 5, 3)
    seen: dict[int, Counter[int]] = {0: Counter(), 1: Counter(), 2: Counter()}
    sets = [run.batches, *(one.batches for one in run.others)]
    for step in range(run.mixture.steps_per_epoch):
        number, own = run.mixture.at(step)
        seen[number].update(sets[number].batch(own).tolist())
    assert [set(counter.values()) for counter in seen.values()] == [{1}, {1}, {1}]
    assert [len(counter) for counter in seen.values()] == [20, 20, 12]
    alone = TrainJob(
        text=job(tiny_folder, sentences).text, recipe="simcse-supervised", model=str(tiny_folder), settings=SETTINGS,
        dev=None,
    ).prepare(Silent())  # fmt: skip
    for step in range(4):
        np.testing.assert_array_equal(alone.batches.batch(step), run.batches.batch(step))
        one, other = (made.inputs.build(made.batches.batch(step), step) for made in (alone, run))
        assert torch.equal(one.tokens.input_ids, other.tokens.input_ids)
        assert one.noise_seed == other.noise_seed
    second = run.others[0]
    assert second.inputs.build(np.arange(4), 0).noise_seed != run.inputs.build(np.arange(4), 0).noise_seed


def test_only_the_objective_of_the_step_moves(tiny_folder: Path, tmp_path: Path, sentences: list[str]) -> None:
    prepared = job(tiny_folder, sentences, "mixing=round_robin").prepare(Silent())
    trainer = prepared.trainer(tmp_path, Silent(), dev=None, start=None)
    (classifier,) = prepared.others[1].objective.parts
    weights = {name: tensor.clone() for name, tensor in classifier.named_parameters()}
    trainer._make_step(0)
    trainer._make_step(1)
    assert all(torch.equal(tensor, weights[name]) for name, tensor in classifier.named_parameters())
    trainer._make_step(2)
    assert not any(torch.equal(tensor, weights[name]) for name, tensor in classifier.named_parameters())


def test_weights_and_steps_of_an_epoch(tiny_folder: Path, sentences: list[str]) -> None:
    sets = '[{name="more", weight=0.5, batch_size=2, objective={view={kind="dropout"}}}, {name="again", weight=2}]'
    triples = open_texts([(sentences[i], sentences[i + 20], sentences[i + 40]) for i in range(20)])
    run = TrainJob(
        text=triples,
        recipe="simcse-supervised",
        model=str(tiny_folder),
        settings=(*SETTINGS, f"datasets={sets}", "training.max_steps=1000", "training.epochs=2"),
        dev=None,
        also=((open_texts(sentences[100:120]), None), (triples, None)),
    ).prepare(Silent())
    assert run.mixture is not None
    assert run.mixture.steps == (5, 5, 10)
    assert run.plan.steps == 40
    lines = run.plan.lines()
    also = "also       more: 20 given sentences, 20 rows of 1 text; 5 steps of batch 2 per epoch; objective "
    assert any(line.startswith(also) and line.count("objective") == 1 for line in lines)
    assert any(line.startswith("mixing     by proportion") and "5 steps of the text" in line for line in lines)
    assert any("60 examples of 3 data sets are 20 batches per epoch, so 2.00 epochs" in line for line in lines)


def test_budgets_of_tokens_and_minutes_count_all_sets(tiny_folder: Path, sentences: list[str]) -> None:
    whole = job(tiny_folder, sentences, "training.max_steps=1000").prepare(Silent())
    inputs = [whole.inputs, *(one.inputs for one in whole.others)]
    total = sum(int(one.lengths.sum()) for one in inputs)
    half = job(tiny_folder, sentences, "training.max_steps=1000", f"training.tokens={total}").prepare(Silent())
    assert half.plan.steps == 13
    timed = job(tiny_folder, sentences, "training.max_steps=7", "training.minutes=60").prepare(Silent())
    assert timed.plan.steps == 7
