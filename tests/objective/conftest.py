"""Fixtures of the room."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import write_tiny_bert
from opencse.encoder.encoder import SentenceEncoder


@pytest.fixture
def encoder(encoder: SentenceEncoder) -> SentenceEncoder:
    """The tiny model in training mode: mean pooling, dropout on; a new copy for each test."""
    return encoder.train()


@pytest.fixture(scope="session")
def sharp_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny BERT with larger weights, whose guesses are far from uniform."""
    return write_tiny_bert(tmp_path_factory.mktemp("sharp"), sd=0.3)
