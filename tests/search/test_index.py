"""The index against a plain sort and a plain dictionary."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.search.index import Index

TEXTS = ["A cat sleeps.", "Rain falls on the roof.", "A cat sleeps.", "The train is late again.", "Dogs bark at night."]


@pytest.fixture(scope="module")
def mini() -> SentenceEncoder:
    return SentenceEncoder.load(device="cpu")


@pytest.fixture
def index(tmp_path: Path, mini: SentenceEncoder) -> Index:
    rows = [{"text": text, "id": f"n{number}", "length": len(text)} for number, text in enumerate(TEXTS)]
    return Index.build(tmp_path / "index", rows, mini, model="opencse-mini")


def test_hits_are_those_of_a_plain_sort(index: Index, mini: SentenceEncoder) -> None:
    queries = ["The cat is asleep.", "trains"]
    unit = mini.encode(TEXTS, normalize_embeddings=True).astype(np.float64)
    for query, hits in zip(queries, index.search(queries, 5), strict=True):
        own = mini.encode([query], normalize_embeddings=True).astype(np.float64)[0]
        cosines = (unit * own).sum(axis=1)
        order = np.lexsort((np.arange(5), -cosines))
        assert [hit.id for hit in hits] == [f"n{place}" for place in order]
        assert [hit.score for hit in hits] == pytest.approx(cosines[order].tolist(), abs=1e-6)
    first = index.search(["A cat sleeps."], 2)[0]
    assert [(hit.id, hit.text) for hit in first] == [("n0", TEXTS[0]), ("n2", TEXTS[2])]
    assert first[0].score == first[1].score
    assert first[0].metadata == {"length": 13}


def test_another_model_is_refused(index: Index, tiny_folder: Path, mini: SentenceEncoder) -> None:
    other = SentenceEncoder.load(tiny_folder, device="cpu")
    with pytest.raises(UserError, match="built with opencse-mini"):
        Index.open(index.folder, encoder=other)
    assert Index.open(index.folder).search(["cat"], 1) == index.search(["cat"], 1)
