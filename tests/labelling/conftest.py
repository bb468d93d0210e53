"""A small index whose texts are judged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.opening import load
from opencse.search.index import Index
from opencse.search.rows import IndexRow


@pytest.fixture
def water(tmp_path: Path, encoder: SentenceEncoder, tiny_folder: Path) -> Iterator[Index]:
    """Thirty texts with the ids w0 to w29, in the folder ``index``."""
    rows = [IndexRow(f"Water number {i} is cold.", f"w{i}", {"cup": i}) for i in range(30)]
    with Index.build(tmp_path / "index", rows, encoder, model=str(tiny_folder)) as index:
        yield index


@pytest.fixture
def reversed_water(tmp_path: Path) -> Iterator[Index]:
    """The same thirty texts by another model and in another order, in the folder ``reversed``."""
    rows = [IndexRow(f"Water number {i} is cold.", f"w{i}", {"cup": i}) for i in reversed(range(30))]
    with Index.build(tmp_path / "reversed", rows, load("opencse-mini"), model="opencse-mini") as index:
        yield index
