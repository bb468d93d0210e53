"""Rows of BM25 and of hybrid search next to the vectors: equal to what an index returns, and compared in pairs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.evaluation.embedding import EmbeddingModel
from opencse.evaluation.models.opening import open_model
from opencse.evaluation.retrieval.data import RetrievalData, RetrievalTask
from opencse.evaluation.retrieval.keyword_rows import KeywordRows, rows_with_keywords
from opencse.evaluation.retrieval.rankers import ByBoth, ByKeywords, ByVectors, Ranker, TaskKeywords
from opencse.evaluation.retrieval.score import Retrieval
from opencse.modules.hybrid_weight import HybridWeight
from opencse.search.building import BuildSettings
from opencse.search.index import Index
from opencse.search.model_weight import weight_of_model
from opencse.text import sample

TEXTS = list(dict.fromkeys(line for line in sample.TRAIN.read_text(encoding="utf-8").splitlines() if line))[:300]


@pytest.fixture(scope="module")
def mini() -> EmbeddingModel:
    return open_model("opencse-mini", device="cpu")


@pytest.fixture(scope="module")
def task() -> RetrievalTask:
    """Each 10th text is asked for by a fourth of its words; every third document is 30 texts, in passages."""
    rows = range(0, 300, 10)
    queries = [" ".join(TEXTS[row].lower().split()[1::4]) for row in rows]
    ids = [f"d{row}" for row in range(300)]
    texts = [" ".join(TEXTS[row : row + 30]) if row % 3 == 1 else text for row, text in enumerate(TEXTS)]
    return RetrievalTask("toy", ids, texts, [f"q{row}" for row in rows], queries, [{row: 1} for row in rows], 0)


@pytest.mark.parametrize("language", ["none", "english"])
@pytest.mark.parametrize("weight", [0.3, 0.5])
def test_hybrid_rows_rank_as_an_index_does(
    tmp_path: Path, mini: EmbeddingModel, task: RetrievalTask, weight: float, language: str
) -> None:
    index = Index.build(
        tmp_path / "index",
        [{"text": text, "id": name} for text, name in zip(task.documents, task.document_ids, strict=True)],
        SentenceEncoder.load("opencse-mini", device="cpu"),
        how=BuildSettings(language=language),
    )
    assert len(index) > 400
    both = ByBoth(weight, TaskKeywords(language), mini.split)
    embedded = Retrieval(ranker=both).embed(mini, [task])
    hits = index.search(task.queries, 20, hybrid=True, hybrid_weight=weight)
    expected = [[hit.id for hit in of_query] for of_query in hits]
    assert [[task.document_ids[row] for row in rows] for rows in both.first(task, embedded, 20)] == expected
    whole = ByVectors().first(task, Retrieval().embed(mini, [task]), 20)
    assert [[task.document_ids[row] for row in rows] for rows in whole] != expected


def test_rows_are_scored_and_compared_with_each_other(mini: EmbeddingModel, task: RetrievalTask) -> None:
    model, lines = replace(mini, hybrid_weight=HybridWeight(0.25, "five questions")), list[str]()
    data = RetrievalData("here", "raw", {"toy": task})
    rows = rows_with_keywords([model], Retrieval(), data, KeywordRows(hybrid=True), lines.append)
    assert list(rows) == ["BM25", "opencse-mini", "opencse-mini + BM25"]
    words, vectors, both = rows.values()
    assert (words.model, words.similarity, words.ranked_by) == (None, None, "BM25")
    assert (both.model, both.ranked_by) == (model.name, "0.25 cosine + 0.75 BM25")
    assert "opencse-mini + BM25: weight of the vectors 0.25 (five questions)" in lines
    assert vectors.compared["toy"].than == "BM25"
    better = max((words, vectors), key=lambda one: one.retrieval["toy"].ndcg_at_10)
    assert both.compared["toy"].than == ("BM25" if better is words else "opencse-mini")
    difference = both.retrieval["toy"].ndcg_at_10 - better.retrieval["toy"].ndcg_at_10
    assert both.compared["toy"].difference == pytest.approx(difference)
    for one in rows.values():
        low, high = one.retrieval["toy"].intervals["ndcg_at_10"] or (0, 100)  # None where all queries score the same
        assert low <= one.retrieval["toy"].ndcg_at_10 <= high
        assert list(one.retrieval["toy"].by_query) == task.query_ids
    low, high = vectors.retrieval["toy"].intervals["ndcg_at_10"] or (0, 0)
    assert low < high
    alone = Retrieval().evaluate(mini, data).record
    assert alone.retrieval["toy"] == vectors.retrieval["toy"]


def test_the_weight_is_the_requested_one_or_that_of_general_questions(
    mini: EmbeddingModel, task: RetrievalTask
) -> None:
    data = RetrievalData("here", "raw", {"toy": task})
    general = weight_of_model(mini.encode, mini.encode, mini.similarity).value
    for extra, expected in (
        (KeywordRows(hybrid=True, weight=0.8), "0.8 cosine"),
        (KeywordRows(hybrid=True, language="english"), f"{general:g} cosine"),
        (KeywordRows(hybrid=True, language="german"), "0.5 cosine"),
    ):
        rows = rows_with_keywords([mini], Retrieval(), data, extra, list[str]().append)
        assert rows["opencse-mini + BM25"].ranked_by.startswith(expected)
    assert list(rows_with_keywords([mini], Retrieval(), data, KeywordRows(), list[str]().append)) == [
        "BM25",
        "opencse-mini",
    ]


def test_documents_without_a_common_word_are_not_ranked_by_bm25(task: RetrievalTask) -> None:
    words: Ranker = ByKeywords(TaskKeywords("none"))
    nothing = Retrieval(ranker=words).embed(open_model(lambda texts: np.ones((len(texts), 1))), [task])
    assert len(nothing) == 0
    asked = replace(task, documents=TEXTS, queries=["zzz", TEXTS[7]], query_ids=["a", "b"], judged=[{0: 1}, {7: 1}])
    none, some = words.first(asked, nothing, 5)
    assert none == []
    assert some[0] == 7
