"""Snapshots: one per query, of one moment, shared while nothing changes."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opencse
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.search.index import Index
from search_texts import TEXTS


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """``connect`` for each database that is opened, and each SQL statement."""
    seen: list[str] = []

    class Recorded(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            seen.append(sql)
            return super().execute(sql, *parameters)

    connect = sqlite3.connect

    def recorded(*arguments: Any, **options: Any) -> sqlite3.Connection:
        seen.append("connect")
        return connect(*arguments, factory=Recorded, **options)

    monkeypatch.setattr(sqlite3, "connect", recorded)
    return seen


@pytest.mark.parametrize("options", [{}, {"hybrid": True}, {"where": ["length>13"]}, {"where": {"length": 13}}])
def test_a_query_opens_the_index_once_and_takes_one_snapshot(
    index: Index, mini: SentenceEncoder, statements: list[str], options: dict[str, Any]
) -> None:
    result = opencse.query_index(index.folder, ["A cat sleeps."], model=mini, **options)
    assert len(result[0]) > 0
    assert (statements.count("connect"), statements.count("BEGIN")) == (1, 1)
    with Index.open(index.folder, encoder=mini) as opened:
        statements.clear()
        opened.search(["rain"])
        opened.search(["rain"])
        assert (statements.count("connect"), statements.count("BEGIN")) == (0, 2)


def test_calls_in_a_block_see_the_same_moment(index: Index, mini: SentenceEncoder) -> None:
    with Index.open(index.folder, encoder=mini) as other, index.snapshot() as snapshot:
        other.add(["A new cat."])
        other.delete(["n0", "n1", "n2", "n3"])  # so many that the vector file is replaced
        with index.snapshot() as inner:
            assert inner is snapshot
        assert len(index) == len(index.rows()) == index.info().rows == 5
        assert index.search(["A cat sleeps."], 1)[0][0].copies == ("n2",)
        assert index.vectors().shape == (5, 448)
    assert len(index) == 2
    assert [hit.text for hit in index.rows()] == ["Dogs bark at night.", "A new cat."]


def test_a_snapshot_is_shared_until_the_index_changes(index: Index) -> None:
    with index.snapshot() as first:
        vectors = first.vectors
    with index.snapshot() as second:
        assert second is first
        assert second.vectors is vectors
    index.add(["More."])
    with index.snapshot() as third:
        assert third is not first
        assert len(third.vectors) == 6


def test_threads_search_while_another_process_writes(index: Index, mini: SentenceEncoder) -> None:
    queries, errors, sizes = index.encode(TEXTS[:2], role=_query()), [], set()

    def search() -> None:
        try:
            for _ in range(20):
                sizes.add(len(index.search(queries, 99)[0]))
        except Exception as error:  # raised in the test below
            errors.append(error)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    with Index.open(index.folder, encoder=mini) as other:
        for number in range(6):
            other.add([{"text": f"Text {number}.", "id": f"t{number}"}])
            other.delete([f"t{number}"])
    for thread in threads:
        thread.join()
    assert errors == []
    assert sizes <= {4, 5}


def test_rows_and_positions(index: Index) -> None:
    index.delete(["n1"])
    with index.snapshot() as snapshot:
        assert snapshot.positions.tolist() == [0, 2, 3, 4]
        assert snapshot.living is not None
        assert np.array_equal(snapshot.living_vectors, snapshot.vectors[[0, 2, 3, 4]])
        assert [row.position for row in snapshot.rows_with_ids(["n4", "n0"])] == [4, 0]
        assert snapshot.matching({"length": 13}) is not None
        assert snapshot.rows_at([3])[3].text == TEXTS[3]
        assert snapshot.count_documents() == 4
        assert snapshot.integrity_errors() == []
        with pytest.raises(UserError, match=r"row 1 of rows-.* is not as it was written"):
            snapshot.rows_at([1])


def test_an_index_that_was_moved_away_and_back(index: Index, tmp_path: Path) -> None:
    index.folder.rename(tmp_path / "away")
    for _ in range(2):
        with pytest.raises(UserError, match="the index is gone"):
            len(index)
    (tmp_path / "away").rename(index.folder)
    assert len(index) == 5


def _query() -> Any:
    from opencse.modules.prompts import Role

    return Role.QUERY
