"""Fixtures of the room."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.encoder.encoder import SentenceEncoder


@pytest.fixture
def encoder(tiny_folder: Path) -> SentenceEncoder:
    """The tiny model as training has it: mean pooling, dropout on; a new one for each test."""
    return SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu").train()
