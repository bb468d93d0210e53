"""What the trainer does in a step, what it keeps, and what it says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from opencse import SentenceEncoder, UserError, train
from opencse.kernels import processor
from opencse.kernels.precision import choose_precision
from opencse.progress import Progress, Silent
from opencse.recipes.recipe import load_recipe
from opencse.runs.job import TrainJob
from opencse.text import sample
from opencse.text.readers import Source
from opencse.training.optimizer import learning_rate
from opencse.training.settings import TrainingSettings
from opencse.training.trainer import Trainer

QUICK = ("training.max_steps=6", "training.batch_size=8", "training.evaluate_every=2", "training.precision=float32")


def trainer(folder: Path, model: Path, *settings: str, progress: Progress | None = None) -> Trainer:
    job = TrainJob(text=Source(str(sample.TRAIN)), model=str(model), settings=(*QUICK, *settings), dev=None)
    prepared = job.prepare(Silent())
    folder.mkdir(parents=True, exist_ok=True)
    return prepared.trainer(folder, progress or Silent(), dev=None, start=None)


def test_learning_rate_is_linear_to_zero_after_warmup() -> None:
    settings = TrainingSettings(learning_rate=1.0, warmup=0.2)
    rates = [learning_rate(step, 10, settings) for step in range(10)]
    assert rates == pytest.approx([0.5, 1.0, 1.0, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8])
    constant = TrainingSettings(learning_rate=0.5, schedule="constant")
    assert {learning_rate(step, 10, constant) for step in range(10)} == {0.5}


@pytest.mark.slow
def test_start_is_kept_when_nothing_beats_it(tiny_folder: Path, tmp_path: Path) -> None:
    """A huge rate ruins the encoder: the folder then holds the start, with as many layers as asked for, and says so."""
    start = SentenceEncoder.load(tiny_folder, pooling="mean", layers=0)
    dev = tmp_path / "dev.tsv"
    texts = [line for line in sample.TRAIN.read_text().splitlines() if line][:40]
    rows = start.similarity(texts[:20], texts[20:])
    gold = np.argsort(np.argsort(rows.diagonal())) / 4
    dev.write_text("".join(f"{g:.2f}\t{a}\t{b}\n" for g, a, b in zip(gold, texts[:20], texts[20:], strict=True)))
    settings = (
        *QUICK,
        "encoder.layers=0",
        "training.learning_rate=0.5",
        "encoder.pooling=mean",
        "encoder.head.kind=none",
    )
    result = train(sample.TRAIN, tmp_path / "out", model=str(tiny_folder), settings=settings, dev=dev)
    assert result.kept == "start"
    assert result.scores[0] == pytest.approx(100.0)
    assert "start is kept unchanged" in result.verdict
    kept = SentenceEncoder.load(tmp_path / "out")
    assert kept.depth == 0
    assert np.array_equal(kept.encode(texts), start.encode(texts))
    last = SentenceEncoder.load(tmp_path / "out" / "last").encode(texts)
    assert not np.allclose(last, start.encode(texts))


@pytest.mark.slow
def test_a_loss_that_is_not_a_number_stops_the_run(tiny_folder: Path, tmp_path: Path) -> None:
    engine = trainer(tmp_path / "a", tiny_folder)
    with torch.no_grad():
        for parameter in engine.encoder.parameters():
            parameter.fill_(float("nan"))
    with pytest.raises(UserError, match=r"not a number at step 1.*learning_rate"):
        engine.run(resume=False)


def test_precision_is_chosen_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    for units, maker, name, reason in (
        ((), "GenuineIntel", "float32", "no bf16 unit"),
        (("avx512_bf16",), "AuthenticAMD", "bf16", "has avx512_bf16"),
        (("avx512_bf16",), "GenuineIntel", "float32", "without AMX"),
        (("avx512_bf16", "amx_bf16"), "GenuineIntel", "bf16", "has amx_bf16"),
    ):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda units=units: dict.fromkeys(units, True))
        monkeypatch.setattr(processor, "maker", lambda maker=maker: maker)
        chosen = choose_precision("auto", torch.device("cpu"))
        assert (chosen.name, reason in chosen.reason) == (name, True)
    assert choose_precision("bf16", torch.device("cpu")).bf16


def test_the_published_settings_are_in_the_recipes() -> None:
    """Table A.1 of SimCSE."""
    rates = {
        "bert-base": (64, 3e-5),
        "bert-large": (64, 1e-5),
        "roberta-base": (512, 1e-5),
        "roberta-large": (512, 3e-5),
    }
    for preset, (batch, rate) in rates.items():
        training = load_recipe("simcse", preset=preset).training
        assert (training.batch_size, training.learning_rate, training.epochs) == (batch, rate, 1)
    for preset, rate in {"bert-base": 5e-5, "bert-large": 1e-5, "roberta-base": 5e-5, "roberta-large": 1e-5}.items():
        recipe = load_recipe("simcse-supervised", preset=preset)
        assert (recipe.training.batch_size, recipe.training.learning_rate, recipe.training.epochs) == (512, rate, 3)
        assert recipe.encoder.head.keep


@pytest.fixture
def dry_folder(tiny_folder: Path, tmp_path: Path) -> Path:
    """The tiny model, its own dropout rates 0."""
    folder = tmp_path / "dry"
    shutil.copytree(tiny_folder, folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.slow
def test_equal_views_only_for_who_asks_for_them(dry_folder: Path, tiny_folder: Path, tmp_path: Path) -> None:
    """A model without dropout is refused under the dropout view, unless a rate, 0 included, was set."""
    with pytest.raises(UserError) as caught:
        trainer(tmp_path / "a", dry_folder)
    message = str(caught.value)
    assert message.startswith(f"{dry_folder}: this backbone has no dropout, so both views of a sentence would be equal")
    assert "--set encoder.dropout=0.1 (or 0, to train on equal views all the same)" in message
    assert "\n" not in message
    for model in (dry_folder, tiny_folder):
        equal = trainer(tmp_path / "b" / model.name, model, "encoder.dropout=0")
        assert not equal.encoder.has_dropout
        assert float(equal._make_step(0).report["positive_similarity"]) == pytest.approx(1.0, abs=1e-6)
    assert trainer(tmp_path / "c", dry_folder, "encoder.dropout=0.1").encoder.has_dropout
    terms = ("objective.negatives=[]", 'objective.terms=[{kind="mlm"}]')
    assert not trainer(tmp_path / "d", dry_folder, *terms).encoder.has_dropout, "no contrast, no need"
