"""Re-ranked rows against sentence-transformers' CrossEncoder, a plain ranking and pytrec_eval's nDCG."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import opencse as library
from cross_encoders import write_cross_encoder
from helpers import Run
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.text import sample

DEPTH = 12


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_cross_encoder(tmp_path_factory.mktemp("cross") / "my-cross-encoder")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 documents; of every fourth the first words are a query. Query d8 is a document."""
    folder = tmp_path_factory.mktemp("retrieval") / "words"
    (folder / "qrels").mkdir(parents=True)
    lines = [line for line in sample.TRAIN.read_text(encoding="utf-8").splitlines() if len(line.split()) > 6]
    texts = list(dict.fromkeys(lines))[:60]
    documents = [{"_id": f"d{number}", "title": "", "text": text} for number, text in enumerate(texts)]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents))
    queries = [{"_id": f"q{n}", "text": " ".join(texts[n].split()[:4])} for n in range(0, 60, 4)]
    queries[2] = {"_id": "d8", "text": texts[8]}
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    judged = [(row["_id"], f"d{n if n != 8 else 9}", 2) for n, row in zip(range(0, 60, 4), queries, strict=True)]
    judged += [(row["_id"], f"d{n + 1}", 1) for n, row in zip(range(0, 60, 4), queries, strict=True) if n != 8]
    rows = "".join(f"{query}\t{document}\t{level}\n" for query, document, level in judged)
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    return folder


def expected_ndcg(data: Path, cross_encoder: Path) -> dict[str, float]:
    """nDCG@10 x 100 of each query, from sentence-transformers' scores by plain loops."""
    import pytrec_eval
    from sentence_transformers import CrossEncoder

    documents, queries = (
        [json.loads(line) for line in (data / name).read_text().splitlines()]
        for name in ("corpus.jsonl", "queries.jsonl")
    )
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


def test_rows_with_and_without_equal_an_independent_loop(data: Path, cross_encoder: Path) -> None:
    options = {"rerank": cross_encoder, "rerank_depth": DEPTH, "device": "cpu"}
    ((_, rows),) = library.evaluate_all(["opencse-mini"], data, ["retrieval"], **options)  # type: ignore[arg-type]
    assert list(rows) == ["opencse-mini", "opencse-mini + my-cross-encoder"]
    before, after = (row.retrieval["words"] for row in rows.values())  # type: ignore[attr-defined]
    expected = expected_ndcg(data, cross_encoder)
    assert after.by_query == pytest.approx(expected, abs=1e-9)
    assert after.ndcg_at_10 == pytest.approx(np.mean([*expected.values()]))
    assert before.by_query != after.by_query
    assert before.recall_at_100 == after.recall_at_100
    assert before.identical_ids == after.identical_ids == 1
    assert after.ranked_by == "cosine, first 12 by my-cross-encoder"
    compared = rows["opencse-mini + my-cross-encoder"].compared["words"]  # type: ignore[attr-defined]
    assert compared.than == "opencse-mini"
    assert compared.difference == pytest.approx(after.ndcg_at_10 - before.ndcg_at_10)


def test_bm25_and_hybrid_are_reranked_too(data: Path, cross_encoder: Path, tmp_path: Path, opencse: Run) -> None:
    out = tmp_path / "scores.json"
    command = ["evaluate", "opencse-mini", "--data", str(data), "--suite", "retrieval", "--device", "cpu"]
    command += ["--hybrid", "--rerank", str(cross_encoder), "--rerank-depth", "60", "--json", str(out)]
    code, printed, error = opencse(*command)
    assert code == 0, error
    records = json.loads(out.read_text())
    names = [one["ranked_by"].replace("cosine", "C") for one in records]
    both = "0.43 C + 0.57 BM25"
    expected = [f"{one}{more}" for one in ("BM25", "C", both) for more in ("", ", first 60 by my-cross-encoder")]
    assert names == expected
    assert "against BM25: " in printed
    # All 60 documents are ranked by the cross-encoder alone, whatever ranked them first.
    vectors, hybrid = records[3]["retrieval"]["words"], records[5]["retrieval"]["words"]
    assert vectors["by_query"] == hybrid["by_query"]
    assert vectors["by_query"] != records[2]["retrieval"]["words"]["by_query"]


def test_what_cannot_be_reranked_is_refused_before_the_work(data: Path, tiny_folder: Path) -> None:
    with pytest.raises(UserError, match="--rerank is for retrieval"):
        next(library.evaluate_all(["opencse-mini"], data, ["sts"], rerank=tiny_folder))
    with pytest.raises(UserError, match="is no cross-encoder"):
        next(library.evaluate_all(["opencse-mini"], data, ["retrieval"], rerank=tiny_folder))
