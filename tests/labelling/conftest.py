"""A small index whose texts are judged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.search.index import Index
from opencse.search.rows import IndexRow


@pytest.fixture
def water(tmp_path: Path, encoder: SentenceEncoder, tiny_folder: Path) -> Iterator[Index]:
    """Thirty texts with the ids w0 to w29, in the folder ``index``."""
    rows = [IndexRow(f"Water number {i} is cold.", f"w{i}", {"cup": i}) for i in range(30)]
    with Index.build(tmp_path / "index", rows, encoder, model=str(tiny_folder)) as index:
        yield index
