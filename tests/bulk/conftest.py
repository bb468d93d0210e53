from __future__ import annotations

from pathlib import Path

import pytest

from numbered import numbered
from opencse import SentenceEncoder
from opencse.text.readers import Source


@pytest.fixture(scope="module")
def encoder(tiny_folder: Path) -> SentenceEncoder:
    return SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu")


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return numbered(tmp_path)
