"""What the trainer does in a step, what it keeps, and what it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import filled
from opencse import SentenceEncoder, UserError, train
from opencse.progress import Progress, Silent
from opencse.runs.run import Run
from opencse.text import sample
from opencse.text.readers import Source
from opencse.training.optimizer import learning_rate
from opencse.training.settings import TrainingSettings
from opencse.training.trainer import Trainer

QUICK = ("training.max_steps=6", "training.batch_size=8", "training.evaluate_every=2", "training.precision=float32")


def trainer(folder: Path, model: Path, *settings: str, progress: Progress | None = None) -> Trainer:
    job = Run(text=Source(str(sample.TRAIN)), model=str(model), settings=(*QUICK, *settings), dev=None)
    prepared = job.open(Silent())
    folder.mkdir(parents=True, exist_ok=True)
    return prepared.trainer(folder, progress or Silent())


def test_learning_rate_is_linear_to_zero_after_warmup() -> None:
    settings = TrainingSettings(learning_rate=1.0, warmup=0.2)
    rates = [learning_rate(step, 10, settings) for step in range(10)]
    assert rates == pytest.approx([0.5, 1.0, 1.0, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8])
    constant = TrainingSettings(learning_rate=0.5, schedule="constant", rate_changes=((4, 0.2),))
    assert [learning_rate(step, 10, constant) for step in range(10)] == [0.5] * 3 + [0.2] * 7


@pytest.mark.slow
def test_start_is_kept_when_nothing_beats_it(tiny_folder: Path, tmp_path: Path) -> None:
    """A huge rate ruins the encoder: the folder then holds the start, with as many layers as asked for, and says so."""
    start = SentenceEncoder.load(tiny_folder, pooling="mean", layers=0)
    dev = tmp_path / "dev.tsv"
    texts = filled(sample.TRAIN)[:40]
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
