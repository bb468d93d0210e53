"""Rows next to a model's: BM25, hybrid, an index's own, re-ranked."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import opencse
import opencse as library
from helpers import Heard, Run, accepted, filled, json_in, refused, rows_in, write_collection
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.evaluation.embedding import EmbeddingModel
from opencse.evaluation.models.opening import open_model
from opencse.evaluation.retrieval.data import RetrievalData, RetrievalTask
from opencse.evaluation.retrieval.rankers import ByBoth, ByVectors, TaskKeywords
from opencse.evaluation.retrieval.rows import KeywordRows, Rows
from opencse.evaluation.retrieval.score import Retrieval
from opencse.modules.similarity import HybridWeight
from opencse.search.building import BuildSettings
from opencse.search.index import Index
from opencse.text import sample
from search_texts import LINES

TEXTS = list(dict.fromkeys(filled(sample.TRAIN)))[:150]


@pytest.fixture(scope="module")
def mini() -> EmbeddingModel:
    return open_model("opencse-mini", device="cpu")


@pytest.fixture(scope="module")
def task() -> RetrievalTask:
    """Each fifth text is asked for by a fourth of its words; every third document is 30 texts, in passages."""
    rows = range(0, 150, 5)
    queries = [" ".join(TEXTS[row].lower().split()[1::4]) for row in rows]
    ids = [f"d{row}" for row in range(150)]
    texts = [" ".join(TEXTS[row : row + 30]) if row % 3 == 1 else text for row, text in enumerate(TEXTS)]
    return RetrievalTask("toy", ids, texts, [f"q{row}" for row in rows], queries, [{row: 1} for row in rows], 0)


@pytest.mark.slow
@pytest.mark.parametrize(("language", "weight"), [("none", 0.5), ("english", 0.3)])
def test_hybrid_rows_rank_as_an_index_does(
    tmp_path: Path, mini: EmbeddingModel, task: RetrievalTask, weight: float, language: str
) -> None:
    index = Index.build(
        tmp_path / "index",
        [{"text": text, "id": name} for text, name in zip(task.documents, task.document_ids, strict=True)],
        SentenceEncoder.load("opencse-mini", device="cpu"),
        how=BuildSettings(language=language),
    )
    assert len(index) > 200
    both = ByBoth(weight, TaskKeywords(language), mini.split)
    embedded = Retrieval(ranker=both).embed(mini, [task])
    hits = index.search(task.queries, 60, hybrid=True, hybrid_weight=weight)
    expected = [[hit.id for hit in of_query] for of_query in hits]
    assert [[task.document_ids[row] for row in rows] for rows in both.first(task, embedded, 60)] == expected
    whole = ByVectors().first(task, Retrieval().embed(mini, [task]), 60)
    assert [[task.document_ids[row] for row in rows] for rows in whole] != expected


@pytest.mark.slow
def test_rows_are_scored_and_compared_with_each_other(mini: EmbeddingModel, task: RetrievalTask) -> None:
    model, heard = replace(mini, hybrid_weight=HybridWeight(0.25, "five questions")), Heard()
    data = RetrievalData("here", "raw", {"toy": task})
    rows = Rows(Retrieval(), data, heard, KeywordRows(hybrid=True)).of([model])
    assert list(rows) == ["BM25", "opencse-mini", "opencse-mini + BM25"]
    words, vectors, both = rows.values()
    ranked_by = [row["toy", "ndcg_at_10"].extras["ranked_by"] for row in rows.values()]
    assert ranked_by == ["BM25", "cosine", "0.25 cosine + 0.75 BM25"]
    assert (words.model, words["toy", "ndcg_at_10"].extras["similarity"]) == (None, None)
    assert "opencse-mini + BM25: weight of the vectors 0.25 (five questions)" in heard.said
    assert [(one.task, one.than) for one in vectors.compared] == [("toy", "BM25")]
    values = [row["toy", "ndcg_at_10"].value for row in rows.values()]
    assert both.compared[0].difference == pytest.approx(values[2] - max(values[:2]))
    low, high = vectors["toy", "ndcg_at_10"].interval or (0, 0)
    assert low < values[1] < high
    assert Retrieval().evaluate(mini, data).scores == vectors.scores


DOCUMENTS = {f"d{row}": " ".join(LINES[6 * row : 6 * row + 6]) for row in range(40)}
QUERIES = {f"q{row}": " ".join(LINES[6 * row + 5].split()[1::2]) for row in range(0, 40, 2)}
"""Half of the words of the last sentence of every second document: d0, d2, ..."""


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    documents = DOCUMENTS | {"empty": ""}  # which no index holds
    return write_collection(tmp_path / "answers", documents, QUERIES, [(q, q.replace("q", "d"), 1) for q in QUERIES])


def build(folder: Path, documents: dict[str, str], kind: Literal["flat", "hnsw"] = "flat") -> Path:
    rows = [{"text": text, "id": key} for key, text in documents.items()]
    how = BuildSettings(kind=kind, max_length=24)
    Index.build(folder, rows, opencse.load("opencse-mini"), how=how, model="opencse-mini").close()
    return folder


def ndcg_by_hits(folder: Path, *, hybrid: bool) -> float:
    """nDCG@10 x 100 of the first hits, where each query has one relevant document."""
    gains = []
    with Index.open(folder) as index:
        for name, hits in zip(QUERIES, index.search([*QUERIES.values()], 100, hybrid=hybrid), strict=True):
            ranked = [hit.id for hit in hits][:10]
            answer = name.replace("q", "d")
            gains.append(1 / math.log2(ranked.index(answer) + 2) if answer in ranked else 0.0)
    return 100 * sum(gains) / len(gains)


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_the_passages_of_the_index_are_ranked(tmp_path: Path, collection: Path, kind: Literal["flat", "hnsw"]) -> None:
    folder = build(tmp_path / "index", DOCUMENTS, kind=kind)
    ((_, records),) = opencse.evaluate_all([folder, "opencse-mini"], collection, ["retrieval"])
    of_index, of_model = records.values()
    score = of_index["answers", "ndcg_at_10"]
    assert score.value == pytest.approx(ndcg_by_hits(folder, hybrid=False))
    assert score.value != of_model["answers", "ndcg_at_10"].value
    assert [one.than for one in of_model.compared] == [str(folder)]
    assert score.extras["ranked_by"] == ("cosine of passages" if kind == "flat" else "cosine (hnsw) of passages")
    index = of_index.settings["index"]
    assert (index["documents"], index["kind"], index["max_length"]) == (40, kind, 24)


@pytest.mark.slow
def test_hybrid_rows_have_the_weight_of_the_index(opencse: Run, tmp_path: Path, collection: Path) -> None:
    from opencse.modules.similarity import HybridWeight

    folder = build(tmp_path / "index", DOCUMENTS)
    with Index.open(folder) as index:
        index.set_hybrid_weight(HybridWeight(0.3, "twenty queries"))
    out, err = accepted(
        opencse(
            "evaluate",
            folder,
            "--data",
            collection,
            "--suite",
            "retrieval",
            "--hybrid",
            "--json",
            tmp_path / "rows.json",
        )
    )
    assert "weight of the vectors 0.30 (twenty queries)" in err
    assert "index + BM25" in out
    scores = [row["scores"][0] for row in json_in(tmp_path / "rows.json")]
    assert [score["extras"]["ranked_by"] for score in scores] == [
        "BM25",
        "cosine of passages",
        "0.3 cosine of passages + 0.7 BM25",
    ]
    assert [score["extras"]["similarity"] for score in scores] == [None, "cosine", "cosine"]
    assert (scores[2]["task"], scores[2]["measure"]) == ("answers", "ndcg_at_10")
    assert scores[2]["value"] == pytest.approx(ndcg_by_hits(folder, hybrid=True))


def test_documents_that_one_of_both_lacks_are_counted(opencse: Run, tmp_path: Path, collection: Path) -> None:
    changed = {key: text for key, text in DOCUMENTS.items() if key != "d2"} | {"new": "A text that nobody judged."}
    folder = build(tmp_path / "index", changed)
    _, err = accepted(
        opencse("evaluate", folder, "--data", collection, "--suite", "retrieval", "--json", tmp_path / "row.json")
    )
    assert "lacks 1 document of answers, which count as not found, and has 1 that answers lacks" in err
    row = json_in(tmp_path / "row.json")
    index = row["settings"]["index"]
    assert (index["absent"], index["others"]) == ({"answers": 1}, {"answers": 1})
    assert row["scores"][0]["extras"]["by_query"]["q2"] == 0


@pytest.mark.slow
def test_an_index_of_other_documents_is_refused(opencse: Run, tmp_path: Path, collection: Path) -> None:
    for number, (documents, message) in enumerate(
        (
            ({str(row): text for row, text in enumerate(DOCUMENTS.values())}, "has none of the relevant documents"),
            (
                dict(zip(DOCUMENTS, reversed(DOCUMENTS.values()), strict=True)),
                "20 of 20 relevant documents of answers are other texts",
            ),
        )
    ):
        folder = build(tmp_path / f"index{number}", documents)
        refused(opencse("evaluate", folder, "--data", collection, "--suite", "retrieval"), str(folder), message)


DEPTH = 12


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 documents; of every fourth the first words are a query. Query d8 is a document."""
    lines = [line for line in sample.TRAIN.read_text(encoding="utf-8").splitlines() if len(line.split()) > 6]
    texts = list(dict.fromkeys(lines))[:60]
    queries = {
        "d8" if n == 8 else f"q{n}": texts[n] if n == 8 else " ".join(texts[n].split()[:4]) for n in range(0, 60, 4)
    }
    judged = [(query, f"d{int(query[1:]) + (query == 'd8')}", 2) for query in queries]
    judged += [(query, f"d{int(query[1:]) + 1}", 1) for query in queries if query != "d8"]
    documents = {f"d{number}": text for number, text in enumerate(texts)}
    return write_collection(tmp_path_factory.mktemp("retrieval") / "words", documents, queries, judged)


def expected_ndcg(data: Path, cross_encoder: Path) -> dict[str, float]:
    """nDCG@10 x 100 of each query, from sentence-transformers' scores by plain loops."""
    import pytrec_eval
    from sentence_transformers import CrossEncoder

    documents, queries = (rows_in(data / name) for name in ("corpus.jsonl", "queries.jsonl"))
    qrels: dict[str, dict[str, int]] = {}
    for line in (data / "qrels" / "test.tsv").read_text().splitlines()[1:]:
        query, document, level = line.split("\t")
        qrels.setdefault(query, {})[document] = int(level)
    encoder, reference = SentenceEncoder.load(device="cpu"), CrossEncoder(str(cross_encoder), device="cpu")
    matrix = encoder.encode([row["text"] for row in documents], normalize_embeddings=True)
    run: dict[str, dict[str, float]] = {}
    for query in queries:
        similarities = matrix @ encoder.encode([query["text"]], normalize_embeddings=True)[0]
        ranked = [number for number in np.argsort(-similarities, kind="stable") if f"d{number}" != query["_id"]]
        first = [(float(reference.predict([(query["text"], documents[n]["text"])])[0]), n) for n in ranked[:DEPTH]]
        order = [n for _, n in sorted(first, key=lambda pair: -pair[0])] + ranked[DEPTH:]
        run[query["_id"]] = {f"d{n}": float(-place) for place, n in enumerate(order)}
    scores = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10"}).evaluate(run)
    return {query: 100 * one["ndcg_cut_10"] for query, one in scores.items()}


@pytest.mark.slow
def test_rows_with_and_without_equal_an_independent_loop(data: Path, cross_encoder: Path) -> None:
    options = {"rerank": cross_encoder, "rerank_depth": DEPTH, "device": "cpu"}
    ((_, rows),) = library.evaluate_all(["opencse-mini"], data, ["retrieval"], **options)  # type: ignore[arg-type]
    assert list(rows) == ["opencse-mini", "opencse-mini + my-cross-encoder"]
    before, after = (row["words", "ndcg_at_10"] for row in rows.values())
    expected = expected_ndcg(data, cross_encoder)
    assert after.extras["by_query"] == pytest.approx(expected, abs=1e-9)
    assert after.value == pytest.approx(np.mean([*expected.values()]))
    assert before.extras["by_query"] != after.extras["by_query"]
    assert len({row["words", "recall_at_100"].value for row in rows.values()}) == 1
    assert before.extras["identical_ids"] == after.extras["identical_ids"] == 1
    assert after.extras["ranked_by"] == "cosine, first 12 by my-cross-encoder"
    (compared,) = rows["opencse-mini + my-cross-encoder"].compared
    assert compared.than == "opencse-mini"
    assert compared.difference == pytest.approx(after.value - before.value)


def test_what_cannot_be_reranked_is_refused_before_the_work(data: Path, tiny_folder: Path) -> None:
    with pytest.raises(UserError, match="--rerank is for retrieval"):
        next(library.evaluate_all(["opencse-mini"], data, ["sts"], rerank=tiny_folder))
    with pytest.raises(UserError, match="is no cross-encoder"):
        next(library.evaluate_all(["opencse-mini"], data, ["retrieval"], rerank=tiny_folder))
