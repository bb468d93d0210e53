"""Who may change an index."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.search.database import locked
from opencse.search.index import Index
from opencse.search.rows import RowLike, open_rows


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


def test_rows_without_ids_replace_none_and_are_refused(index: Index, tmp_path: Path) -> None:
    """They were added a second time, under numbers."""
    path = tmp_path / "a.txt"
    path.write_text("One.\nTwo.\n", encoding="utf-8")
    before = index.info().rows
    in_memory: list[RowLike] = ["One.", {"text": "Two."}]
    for rows in (open_rows(path), in_memory):
        with pytest.raises(
            UserError, match=r"no row has an id, so --replace would replace none; name the column .*--id"
        ):
            index.add(rows, replace=True)
    assert index.info().rows == before
    assert index.add([{"text": "One.", "id": "n0"}, "Two."], replace=True) == 2
    assert index.info().rows == before + 1
