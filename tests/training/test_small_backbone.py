"""Dropout contrast on a little-trained BERT's embeddings: what docs/results/mini.md says of it, in small."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse import train

pytestmark = pytest.mark.slow

SETTINGS = (
    "encoder.layers=0",
    "encoder.pooling=mean",
    "encoder.head.kind=none",
    "encoder.dropout=0.4",
    "data.max_length=16",
    "training.learning_rate=1e-2",
    "training.batch_size=1024",
    "training.max_steps=30",
    "training.evaluate_every=30",
    "training.precision=float32",
)


def test_dropout_simcse_gains_four_points_in_thirty_steps(shared_data: Path, tmp_path: Path) -> None:
    result = train(
        shared_data / "wiki" / "wiki100k.txt",
        tmp_path,
        model=str(shared_data.parent / "models" / "wikibert-mini"),
        settings=SETTINGS,
        dev=shared_data / "sts" / "stsb" / "dev.tsv",
        device="cpu",
    )
    assert result.kept == "best"
    assert result.scores[30] > result.scores[0] + 4
