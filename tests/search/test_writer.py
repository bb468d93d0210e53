"""Changes of an index: visible after the commit only, and what they write."""

from __future__ import annotations

import numpy as np
import pytest

from opencse.errors import UserError
from opencse.search.folder import current_database, locked
from opencse.search.index import Index
from opencse.search.rows import IndexRow
from opencse.search.writer import Writer

VECTORS = np.eye(2, 448, dtype=np.float32)


def test_a_change_is_visible_after_the_commit_only(index: Index) -> None:
    rows = [(IndexRow("Six.", "a"), 0), (IndexRow("Seven.", "8", {"year": 2020}), 0)]
    with locked(index.folder), Writer(index.folder, current_database(index.folder)) as writer:
        writer.append(rows, VECTORS)
        assert writer.remove_ids(["n0", "nowhere"]) == 1
        assert writer.existing_ids(["n0", "n1", "a"]) == {"n1", "a"}
        assert len(index) == 5
        writer.commit()
        assert len(index) == 6
    assert [hit.id for hit in index.rows()] == ["n1", "n2", "n3", "n4", "a", "8"]
    assert np.array_equal(index.vectors(["a", "8"]), VECTORS)
    with index.snapshot() as snapshot:
        assert (snapshot.manifest.next_id, snapshot.manifest.slots) == (9, 7)
        assert snapshot.manifest.columns == {"length": "number", "year": "number"}


def test_without_a_commit_nothing_changes(index: Index) -> None:
    with Writer(index.folder, current_database(index.folder)) as writer:
        writer.append([(IndexRow("Six.", "a"), 0)], VECTORS[:1])
    assert len(index) == 5
    index.add([IndexRow("Seven.", "b")])  # overwrites what was appended
    assert index.search(["Seven."], 1)[0][0].score == pytest.approx(1)


def test_an_id_that_exists_is_refused(index: Index) -> None:
    with Writer(index.folder, current_database(index.folder)) as writer:
        with pytest.raises(UserError, match="the id 'n1' exists already"):
            writer.append([(IndexRow("Six.", "n1"), 0)], VECTORS[:1])
        writer.append([(IndexRow("Part two.", "n1"), 1)], VECTORS[:1])  # another passage of the document


def test_columns_with_numbers_and_texts_are_mixed(index: Index) -> None:
    index.add([{"text": "Six.", "length": "four"}, {"text": "Seven.", "empty": None}])
    assert index.info().columns == {"length": "mixed", "empty": ""}


def test_texts_are_sampled_from_the_whole_index(index: Index) -> None:
    with Writer(index.folder, current_database(index.folder)) as writer:
        assert len(writer.sample_texts(99)) == 5
        assert len(writer.sample_texts(2)) == 2
