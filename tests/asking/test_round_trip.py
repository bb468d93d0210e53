"""A question leads back to its document, or it does not."""

from __future__ import annotations

import numpy as np
import pytest

from opencse.asking import writing as module
from opencse.asking.plan import SourcePassage
from opencse.asking.writing import DocumentRanks, round_trip
from opencse.encoder.encoder import SentenceEncoder
from opencse.progress import Silent

TEXTS = [
    ["Vinegar removes limescale from kettles.", "A kettle boils water."],
    ["Snow fell on the hills.", "Children played in the snow."],
    ["The tax is due in April."],
]
PASSAGES = [
    [SourcePassage(row, f"d{row}", n, "", text) for n, text in enumerate(texts, 1)] for row, texts in enumerate(TEXTS)
]


def test_ranks_are_those_of_documents(mini: SentenceEncoder) -> None:
    questions = ["what removes limescale", "children and snow", "when is the tax due", "snow on the hills", "xyzzy"]
    ranks = round_trip(questions, [0, 1, 2, 2, 0], PASSAGES, mini, Silent())
    assert [(one.words, one.vectors) for one in ranks[:3]] == [(1, 1)] * 3
    assert ranks[3].words is not None
    assert ranks[3].words == 2 or ranks[3].words is None
    assert ranks[3].vectors > 1
    assert not ranks[3].within(1)
    assert ranks[4].words is None


def test_vectors_agree_with_a_naive_loop(mini: SentenceEncoder) -> None:
    questions, rows = ["limescale in the kettle", "winter sports", "money for the state"], [1, 2, 0]
    ranks = round_trip(questions, rows, PASSAGES, mini, Silent())
    for question, row, rank in zip(questions, rows, ranks, strict=True):
        query = mini.encode_query([question])
        best = [float(np.max(np.asarray(mini.similarity(query, mini.encode_document(texts))))) for texts in TEXTS]
        assert rank.vectors == 1 + sum(score > best[row] for score in best)


def test_of_a_large_collection_the_documents_asked_about_are_always_searched(
    mini: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SEARCHED", 3)
    (rank,) = round_trip(["when is the tax due"], [2], PASSAGES, mini, Silent())
    assert rank == DocumentRanks(1, 1)
    assert round_trip([], [], PASSAGES, mini, Silent()) == []
