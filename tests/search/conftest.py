"""A tiny encoder for indexes, and one index."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.search.index import Index
from search_texts import TEXTS


@pytest.fixture(scope="session")
def built_index(tmp_path_factory: pytest.TempPathFactory, mini: SentenceEncoder) -> Path:
    """The folder of an index of `TEXTS`; no test changes it."""
    folder = tmp_path_factory.mktemp("built") / "index"
    rows = [{"text": text, "id": f"n{number}", "length": len(text)} for number, text in enumerate(TEXTS)]
    Index.build(folder, rows, mini, model="opencse-mini").close()
    return folder


@pytest.fixture
def index(tmp_path: Path, built_index: Path, mini: SentenceEncoder) -> Index:
    """A copy of the index for each test."""
    shutil.copytree(built_index, tmp_path / "index")
    return Index.open(tmp_path / "index", encoder=mini)
