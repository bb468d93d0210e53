"""Fixtures of the room."""

from __future__ import annotations

import pytest

from opencse.encoder.encoder import SentenceEncoder


@pytest.fixture
def encoder(encoder: SentenceEncoder) -> SentenceEncoder:
    """The tiny model in training mode: mean pooling, dropout on; a new copy for each test."""
    return encoder.train()
