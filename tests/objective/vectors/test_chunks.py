"""Gradient caching: the plain step's gradients, whatever the recipe, and the memory of one chunk."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from helpers import Broken, write_tiny_bert
from opencse.errors import InterruptedRunError
from opencse.objective.vectors.chunks import WHOLE, Chunks
from opencse.runs.job import TrainJob
from opencse.text.readers import Source
from opencse.training import budget
from steps import NAMES, gap, gradients, prepared

ALL = 10**6


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny BERT with larger weights, whose vectors of different texts differ."""
    return write_tiny_bert(tmp_path_factory.mktemp("tiny"), sd=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_the_plain_steps(name: str, model: Path, tmp_path: Path, sentences: list[str]) -> None:
    """Without dropout those of all rows at once; with it those of the same chunks with their graphs kept."""
    run = prepared(name, model, tmp_path, sentences, "encoder.layers=2")
    plain = gradients(run, WHOLE, dropout=False)
    assert any(gradient.abs().max() > 1e-6 for gradient in plain[0].values())
    still = gradients(run, Chunks(5), dropout=False)
    assert gap(still[:-1], plain[:-1]) < 1e-10
    kept = gradients(run, Chunks(5, keep=ALL), dropout=True)
    again = gradients(run, Chunks(5), dropout=True)
    assert gap(again, kept) < 1e-10
    if run.encoder.has_dropout:
        assert gap(kept[:1], plain[:1]) > 1e-4, "dropout was on"


@pytest.mark.parametrize("packed", [False, True])
def test_bf16_takes_the_gradient_of_every_weight(
    packed: bool, model: Path, tmp_path: Path, sentences: list[str]
) -> None:
    """A weight that autocast had cast without graph would get none from the chunk whose graph is kept."""
    settings = ("training.precision=bf16", f"training.packed={str(packed).lower()}")
    run = prepared("simcse", model, tmp_path, sentences, *settings)
    run.encoder.float()
    kept = gradients(run, Chunks(5, keep=ALL), dropout=True)
    again = gradients(run, Chunks(5), dropout=True)
    assert gap(again[:1], kept[:1]) < 1e-3
    assert all(gradient.any() for name, gradient in again[0].items() if "key.bias" not in name)
    assert len(again[0]) > 20


def test_a_chunk_is_encoded_twice_but_for_those_that_are_kept(
    model: Path, tmp_path: Path, sentences: list[str]
) -> None:
    run = prepared("simcse", model, tmp_path, sentences)
    seen: list[tuple[int, bool]] = []
    run.encoder.register_forward_pre_hook(lambda module, args: seen.append((len(args[0]), torch.is_grad_enabled())))
    inputs = replace(run.inputs.build(run.batches.batch(0), 0), chunks=Chunks(4, keep=2))
    reps = run.objective.represent(run.encoder.train(), inputs)
    assert seen == [(4, False), (4, False), (4, True), (2, True)], "14 rows"
    torch.autograd.backward(run.objective(reps).total)
    assert seen[4:] == [(4, True), (4, True)]


def test_the_graph_held_for_the_loss_does_not_grow_with_the_batch(
    model: Path, tmp_path: Path, sentences: list[str]
) -> None:
    run = prepared("simcse", model, tmp_path, sentences)
    inputs = run.inputs.build(run.batches.batch(0), 0)

    def held(chunks: Chunks) -> int:
        found: dict[int, int] = {}

        def keep(tensor: torch.Tensor) -> torch.Tensor:
            found[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            reps = run.objective.represent(run.encoder.train(), replace(inputs, chunks=chunks))
        assert reps.anchor.requires_grad
        return sum(found.values())

    weights = sum(p.numel() * p.element_size() for p in run.encoder.parameters())
    whole, small = held(WHOLE), held(Chunks(2))
    assert small - weights < (whole - weights) / 4


@pytest.mark.slow
def test_resumed_is_uninterrupted(tiny_folder: Path, tmp_path: Path, sentences: list[str]) -> None:
    """Bit for bit, in the chunks that memory chose at the beginning."""
    text = tmp_path / "text.txt"
    text.write_text("\n".join(sentences[:20]))
    settings = ("training.epochs=10", "training.max_steps=7", "training.batch_size=8", "training.checkpoint_every=3")

    def job(fit: int) -> TrainJob:
        monkeypatch.setattr(budget, "free_memory", lambda device: fit * 10**6)
        more = ("training.log_every=1", "training.chunk=auto", "training.learning_rate=1e-3")
        return TrainJob(
            text=Source(str(text)), recipe="esimcse", model=str(tiny_folder), settings=(*settings, *more), dev=None
        )

    with pytest.MonkeyPatch.context() as monkeypatch:
        job(1).run(tmp_path / "whole")
        with pytest.raises(InterruptedRunError):
            job(1).run(tmp_path / "broken", progress=Broken(5))
        state = json.loads((tmp_path / "broken" / "checkpoint" / "state.json").read_text())
        assert 1 < state["chunks"]["rows"] < 16
        job(10**6).run(tmp_path / "broken", resume=True)
    for name in ("model.safetensors", "metrics.jsonl"):
        assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
