"""Indexes of the first dimensions of a model's vectors: queries and further rows are truncated as its rows are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opencse
from helpers import filled, write_collection
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.prompts import Role
from opencse.modules.similarity import unit_rows
from opencse.search.building import BuildSettings
from opencse.search.index import Index
from opencse.text import sample
from search_texts import TEXTS

KEPT = 24
MANY = filled(sample.TRAIN)[:120]
QUERIES = ["a dog in the snow", "trains that are late", "hot tea"]


def truncated(encoder: SentenceEncoder, texts: list[str]) -> np.ndarray:
    return unit_rows(encoder.encode(texts)[:, :KEPT])


@pytest.fixture
def short(tmp_path: Path, mini: SentenceEncoder) -> Index:
    return Index.build(tmp_path / "short", MANY, mini, how=BuildSettings(dimensions=KEPT), model="opencse-mini")


def test_rows_and_queries_are_truncated_and_normalised(short: Index, mini: SentenceEncoder) -> None:
    assert np.abs(short.vectors() - truncated(mini, MANY)).max() < 1e-6
    scores = truncated(mini, QUERIES) @ truncated(mini, MANY).T
    best = np.argsort(-scores, axis=1, kind="stable")[:, :5]
    full = mini.encode(QUERIES)
    assert not np.array_equal(best, np.argsort(-(unit_rows(full) @ unit_rows(mini.encode(MANY)).T), axis=1)[:, :5])
    for queries, vectors in ((QUERIES, None), (full, None), (QUERIES, full), (full[:, :KEPT], None)):
        hits = short.search(queries, 5, vectors=vectors)
        assert [[hit.id for hit in each] for each in hits] == best.astype(str).tolist()
        assert [hit.score for hit in hits[0]] == pytest.approx(scores[0][best[0]].tolist(), abs=1e-5)
    assert short.encode(QUERIES, Role.QUERY).shape == (3, KEPT)
    with pytest.raises(UserError, match=rf"queries are a \(n, {KEPT}\) or \(n, {mini.dimension}\) array"):
        short.search(full[:, : KEPT + 1], 5)


def test_it_is_saved_and_used_for_what_is_added(short: Index, mini: SentenceEncoder) -> None:
    short.close()
    with Index.open(short.folder) as index:
        index.add(["A new text about boats."])
        assert np.abs(index.vectors()[-1:] - truncated(mini, ["A new text about boats."])).max() < 1e-6
        info = index.info()
        assert (info.dimension, info.encoded_dimension) == (KEPT, mini.dimension)
        assert info.dimensions == f"the first {KEPT} of {mini.dimension} dimensions"
        assert info.megabytes == pytest.approx(4e-6 * (len(MANY) + 1) * KEPT)
        assert index.search(["boats"], 1, hybrid=True)[0][0].text == "A new text about boats."


@pytest.mark.slow
def test_an_evaluation_scores_what_the_index_delivers(tmp_path: Path, mini: SentenceEncoder) -> None:
    queries = {row: text.split()[0] + " " + text.split()[-1] for row, text in enumerate(MANY[::6])}
    judged = [(row, 6 * row, 1) for row in queries]
    data = write_collection(tmp_path / "data", dict(enumerate(MANY)), queries, judged)
    scores = []
    for name, dimensions in (("short", KEPT), ("full", None)):
        opencse.build_index(tmp_path / name, "opencse-mini", data / "corpus.jsonl", dimensions=dimensions, device="cpu")
        record = opencse.evaluate(tmp_path / name, data, "retrieval")
        assert record.settings["index"]["dimensions"] == dimensions
        scores.append(record["data", "ndcg_at_10"].value)
        opencse.tune_index(tmp_path / name, dev=data, device="cpu")
    alone = opencse.evaluate("opencse-mini", data, "retrieval", dimensions=KEPT)["data", "ndcg_at_10"].value
    assert scores[0] == pytest.approx(alone, abs=0.1)
    assert scores[0] != scores[1]


def test_more_than_the_model_has_are_refused_before_rows_are_read(tmp_path: Path, mini: SentenceEncoder) -> None:
    with pytest.raises(UserError, match=rf"dimensions is from 1 to the {mini.dimension} of this model, not 100000"):
        Index.build(tmp_path / "i", TEXTS, mini, how=BuildSettings(dimensions=100_000))
    assert not (tmp_path / "i").exists()
