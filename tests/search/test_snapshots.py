"""Snapshots: one per query, of one moment, shared while nothing changes."""

from __future__ import annotations

import threading
from typing import Any

from opencse.encoder.encoder import SentenceEncoder
from opencse.search.index import Index
from search_texts import TEXTS


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


def _query() -> Any:
    from opencse.modules.prompts import Role

    return Role.QUERY
