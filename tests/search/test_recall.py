"""Recall of an approximate index, from its definition."""

from __future__ import annotations

import numpy as np
import pytest

from opencse.arrays import Floats, Integers
from opencse.ranking import PreparedVectors
from opencse.search.index import Index
from opencse.search.recall import measure_recall


def test_an_exact_index_has_recall_1(index: Index) -> None:
    recall = measure_recall(index, ks=(1, 3, 100))
    assert recall.at == {1: 1.0, 3: 1.0}  # 100 hits do not exist
    assert (recall.held, recall.queries) == (True, 5)


def test_recall_is_the_share_of_exact_hits(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    class Half:
        """Finds every second row only."""

        def search(
            self, queries: PreparedVectors, vectors: PreparedVectors, k: int, living: Integers | None
        ) -> tuple[Integers, Floats]:
            del living
            scores = (queries @ vectors.T).astype(np.float64)
            scores[:, 1::2] = -np.inf
            order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
            found = np.take_along_axis(scores, order, axis=1)
            return np.where(np.isinf(found), -1, order), found

    with index.snapshot() as snapshot:
        monkeypatch.setitem(snapshot.__dict__, "approximate", Half())
        recall = measure_recall(index, index.vectors(), ks=(5,))
    assert recall.at == {5: pytest.approx(3 / 5)}
    assert recall.line() == "recall@5 0.6000 against the exact search (5 queries)"
