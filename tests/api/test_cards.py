"""The cards of models that are made without training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opencse
from opencse.api.cards import fitted_text, mapped_card
from opencse.encoder.encoder import SentenceEncoder
from opencse.evaluation.models.all_but_the_top import AllButTheTop
from opencse.evaluation.models.whitening import Whitening
from opencse.text import sample


@pytest.mark.parametrize(
    ("fit", "title", "dimension"),
    [
        (lambda vectors: Whitening.fit(vectors, 3), "# Sentence encoder whitened with", " to 3 |"),
        (
            lambda vectors: AllButTheTop.fit(vectors, 1),
            "without its dominant components",
            "1 component removed",
        ),
    ],
)
def test_of_a_linear_map(encoder: SentenceEncoder, fit: object, title: str, dimension: str) -> None:
    vectors = np.random.default_rng(0).normal(size=(50, encoder.dimension)).astype(np.float32)
    text = fitted_text("news.txt", "0123456789abcdef0123", 50)
    card = mapped_card("my-model", encoder, encoder, fit(vectors), text)  # type: ignore[operator]
    assert title in card
    assert "| text | news.txt: 50 texts; content hash 0123456789abcdef |" in card
    assert f"| dimension | {encoder.dimension} to " in card
    assert dimension in card


@pytest.mark.slow
def test_of_what_is_made_without_training(tiny_folder: Path, tmp_path: Path) -> None:
    opencse.whiten(tiny_folder, sample.TRAIN, tmp_path / "white", dimension=8, sentences=500)
    assert "to 8" in (tmp_path / "white" / "README.md").read_text()
    opencse.export_static(tiny_folder, tmp_path / "table")
    assert "opencse export onnx" not in (tmp_path / "table" / "README.md").read_text()
