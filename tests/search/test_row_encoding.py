"""The ids of rows that are added."""

from __future__ import annotations

import pytest

from opencse.errors import UserError
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
