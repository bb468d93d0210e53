"""The classifier of pairs: its weights, its loss, what the log shows, and that no saved encoder has it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file

from helpers import Stopped
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import InterruptedRunError, UserError
from opencse.objective.losses.graded import pair_features, pair_softmax
from opencse.objective.terms.softmax import Softmax
from opencse.objective.vectors.row_labels import Classes
from opencse.objective.vectors.step import Representations
from opencse.runs.job import TrainJob
from opencse.text.given import open_texts


def begun(encoder: SentenceEncoder, classes: int = 3, seed: int = 1, **settings: object) -> Softmax:
    term = Softmax(Softmax.Settings.model_validate(settings))
    term.classes = classes
    term.begin(encoder, batch_size=4, seed=seed)
    return term


def test_the_first_weights_follow_from_the_seed(encoder: SentenceEncoder) -> None:
    one, again, other = (begun(encoder, seed=seed).classifier for seed in (1, 1, 2))
    assert one is not None
    assert again is not None
    assert other is not None
    assert torch.equal(one.weight, again.weight)
    assert not torch.equal(one.weight, other.weight)
    assert one.weight.shape == (3, 3 * encoder.training_dimension)
    bound = one.in_features**-0.5
    assert 0.9 * bound < float(one.weight.detach().abs().max()) <= bound
    wide = begun(encoder, features=["vectors", "difference", "product"]).classifier
    assert wide is not None
    assert wide.in_features == 4 * encoder.training_dimension


def test_the_loss_and_the_accuracy(encoder: SentenceEncoder) -> None:
    term = begun(encoder)
    assert term.classifier is not None
    first, second = torch.randn(2, 6, encoder.training_dimension, generator=torch.Generator().manual_seed(2))
    classes = torch.tensor([0, 1, 2, 2, 1, 0])
    reps = replace(Representations.of(first, second), answers={Classes(): classes})
    features = pair_features(first, second, ["vectors", "difference"])
    expected = pair_softmax(features, classes, term.classifier.weight, term.classifier.bias)
    torch.testing.assert_close(term.loss(reps), expected)
    right = sum(int(term.classifier(row).argmax() == label) for row, label in zip(features, classes, strict=True))
    assert float(term.diagnose(reps)["softmax_accuracy"]) == pytest.approx(right / 6)


def test_what_is_refused(encoder: SentenceEncoder) -> None:
    with pytest.raises(UserError, match="the data has 1; give rows of at least two classes"):
        begun(encoder, classes=1)
    with pytest.raises(ValidationError, match="name each feature once"):
        Softmax.Settings(features=("vectors", "vectors"))


def test_it_is_trained_checkpointed_and_left_out_of_the_saved_encoder(
    tiny_folder: Path, tmp_path: Path, sentences: list[str]
) -> None:
    rows = [(sentences[n], sentences[n + 50], ("no", "yes", "maybe")[n % 3]) for n in range(40)]
    settings = (
        "training.max_steps=8",
        "training.batch_size=8",
        "training.log_every=1",
        "training.epochs=9",
        "data.max_length=32",
    )
    job = TrainJob(text=open_texts(rows), recipe="sbert", model=str(tiny_folder), settings=settings, dev=None)
    with pytest.raises(InterruptedRunError):
        job.run(tmp_path / "run", progress=Stopped(4))
    saved = load_file(tmp_path / "run" / "checkpoint" / "tensors.safetensors")
    name = next(name for name in saved if "classifier.weight" in name and name.startswith("objective."))
    assert saved[name].shape[0] == 3
    result = job.run(tmp_path / "run", resume=True)
    assert result.plan is not None
    assert any(line == "labels     3 classes: maybe, no, yes" for line in result.plan.lines())
    assert not any("classifier" in name for name in load_file(tmp_path / "run" / "model.safetensors"))
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert all(0 <= line["softmax_accuracy"] <= 1 for line in lines if "loss" in line)
