"""A tiny encoder for indexes, and one index."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.search.index import Index
from search_texts import TEXTS


@pytest.fixture(scope="session")
def mini() -> SentenceEncoder:
    return SentenceEncoder.load(device="cpu")


@pytest.fixture
def index(tmp_path: Path, mini: SentenceEncoder) -> Index:
    rows = [{"text": text, "id": f"n{number}", "length": len(text)} for number, text in enumerate(TEXTS)]
    return Index.build(tmp_path / "index", rows, mini, model="opencse-mini")
