"""Who may change an index."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.search.folder import locked
from opencse.search.index import Index


def test_another_model_is_refused(index: Index, tiny_folder: Path) -> None:
    other = SentenceEncoder.load(tiny_folder, device="cpu")
    with pytest.raises(UserError, match="was built with opencse-mini"):
        Index.open(index.folder, encoder=other)
    with pytest.raises(UserError, match="was built with opencse-mini"):
        index.add(["x"], encoder=other)
    with Index.open(index.folder) as alone:  # loads the model that it names
        assert alone.search(["cat"], 1) == index.search(["cat"], 1)


def test_a_second_writer_is_refused(index: Index) -> None:
    with locked(index.folder), pytest.raises(UserError, match="another process is writing this index"):
        index.add(["x"])
    index.add(["x"])
