"""The ids of rows that are added."""

from __future__ import annotations

import pytest

from opencse.errors import UserError
from opencse.search import row_encoding
from opencse.search.index import Index


def test_ids_are_unique(index: Index) -> None:
    before = index.rows()
    with pytest.raises(UserError, match="the id 'n1' exists already"):
        index.add([{"text": "Other.", "id": "fresh"}, {"text": "Another.", "id": "n1"}])
    assert index.rows() == before
    assert index.add([{"text": "Another.", "id": "n1"}], replace=True) == 1
    assert [hit.id for hit in index.rows()] == ["n0", "n2", "n3", "n4", "n1"]
    assert index.rows(4)[0].text == "Another."
    with pytest.raises(UserError, match=r"rows\[1\]: the id 'a' is also that of rows\[0\]"):
        index.add([{"text": "One.", "id": "a"}, {"text": "Two.", "id": "a"}], replace=True)


def test_an_id_that_occurs_twice_is_refused_across_windows(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_encoding, "WINDOW", 2)
    before = index.rows()
    twice = [{"text": "First.", "id": "n1"}, {"text": "Two."}, {"text": "Three."}, {"text": "Last.", "id": "n1"}]
    with pytest.raises(UserError, match=r"rows\[3\]: the id 'n1' is also that of rows\[0\]"):
        index.add(twice, replace=True)
    assert index.rows() == before
