"""Scores of an index against its own searches, ranked and measured by plain loops."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Literal

import pytest

import opencse
from helpers import Run, refused
from opencse.errors import UserError
from opencse.evaluation.retrieval.score import RetrievalResult
from opencse.search.building import BuildSettings
from opencse.search.index import Index
from opencse.text import sample

LINES = list(dict.fromkeys(sample.TRAIN.read_text(encoding="utf-8").splitlines()))[:240]
DOCUMENTS = {f"d{row}": " ".join(LINES[6 * row : 6 * row + 6]) for row in range(40)}
QUERIES = {f"q{row}": " ".join(LINES[6 * row + 5].split()[1::2]) for row in range(0, 40, 2)}
"""Half of the words of the last sentence of every second document: d0, d2, ..."""


def write_collection(folder: Path, documents: dict[str, str]) -> Path:
    (folder / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", documents), ("queries", QUERIES)):
        lines = [json.dumps({"_id": key, "text": text}) for key, text in texts.items()]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "qrels" / "test.tsv").write_text("".join(f"q{row}\td{row}\t1\n" for row in range(0, 40, 2)))
    return folder


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    return write_collection(tmp_path / "answers", DOCUMENTS | {"empty": ""})  # which no index holds


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
    assert isinstance(of_index, RetrievalResult)
    assert isinstance(of_model, RetrievalResult)
    assert of_index.retrieval["answers"].ndcg_at_10 == pytest.approx(ndcg_by_hits(folder, hybrid=False))
    assert of_index.retrieval["answers"].ndcg_at_10 != of_model.retrieval["answers"].ndcg_at_10
    assert of_model.compared["answers"].than == str(folder)
    assert of_index.ranked_by == ("cosine of passages" if kind == "flat" else "cosine (hnsw) of passages")
    assert of_index.retrieval["answers"].similarity == "cosine"
    assert of_index.index is not None
    assert (of_index.index.documents, of_index.index.kind, of_index.index.max_length) == (40, kind, 24)
    assert of_index.index.passages > 40
    alone = opencse.evaluate(folder, collection, "retrieval")
    assert alone.retrieval == of_index.retrieval


def test_hybrid_rows_have_the_weight_of_the_index(opencse: Run, tmp_path: Path, collection: Path) -> None:
    from opencse.modules.hybrid_weight import HybridWeight

    folder = build(tmp_path / "index", DOCUMENTS)
    with Index.open(folder) as index:
        index.set_hybrid_weight(HybridWeight(0.3, "twenty queries"))
    code, out, err = opencse(
        "evaluate", folder, "--data", collection, "--suite", "retrieval", "--hybrid", "--json", tmp_path / "rows.json"
    )
    assert code == 0, err
    assert "weight of the vectors 0.30 (twenty queries)" in err
    assert "index + BM25" in out
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [row["ranked_by"] for row in rows] == [
        "BM25",
        "cosine of passages",
        "0.3 cosine of passages + 0.7 BM25",
    ]
    assert [row["retrieval"]["answers"]["similarity"] for row in rows] == [None, "cosine", "cosine"]
    assert rows[2]["retrieval"]["answers"]["ndcg_at_10"] == pytest.approx(ndcg_by_hits(folder, hybrid=True))


def test_documents_that_one_of_both_lacks_are_counted(opencse: Run, tmp_path: Path, collection: Path) -> None:
    changed = {key: text for key, text in DOCUMENTS.items() if key != "d2"} | {"new": "A text that nobody judged."}
    folder = build(tmp_path / "index", changed)
    code, _, err = opencse(
        "evaluate", folder, "--data", collection, "--suite", "retrieval", "--json", tmp_path / "row.json"
    )
    assert code == 0, err
    assert "lacks 1 document of answers, which count as not found, and has 1 that answers lacks" in err
    row = json.loads((tmp_path / "row.json").read_text())
    assert (row["index"]["absent"], row["index"]["others"]) == ({"answers": 1}, {"answers": 1})
    assert row["retrieval"]["answers"]["by_query"]["q2"] == 0


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ({str(row): text for row, text in enumerate(DOCUMENTS.values())}, "has none of the relevant documents"),
        (
            dict(zip(DOCUMENTS, reversed(DOCUMENTS.values()), strict=True)),
            "20 of 20 relevant documents of answers are other texts",
        ),
    ],
    ids=["ids", "texts"],
)
def test_an_index_of_other_documents_is_refused(
    opencse: Run, tmp_path: Path, collection: Path, documents: dict[str, str], message: str
) -> None:
    folder = build(tmp_path / "index", documents)
    result = opencse("evaluate", folder, "--data", collection, "--suite", "retrieval")
    refused(result, str(folder), message, "corpus.jsonl")


def test_labels_of_an_index_name_its_documents(tmp_path: Path) -> None:
    """`opencse label` writes ids with tabs in another form, without which they could not be in a table."""
    from opencse.search.rows import exported_id

    documents = {f"d\t{key}": text for key, text in DOCUMENTS.items()}
    folder = build(tmp_path / "index", documents)
    collection = write_collection(tmp_path / "labels", {exported_id(key): text for key, text in documents.items()})
    judged = "".join(f"q{row}\t{exported_id(f'd{chr(9)}d{row}')}\t1\n" for row in range(0, 40, 2))
    (collection / "qrels" / "test.tsv").write_text(judged)
    record = opencse.evaluate(folder, collection, "retrieval")
    assert record.retrieval["labels"].ndcg_at_10 > 50
    assert record.index is not None
    assert record.index.absent == {"labels": 0}


def test_an_unfinished_index_is_refused(tmp_path: Path, collection: Path) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "building.json").write_text('{"rows": "rows-1.sqlite"}')
    with pytest.raises(UserError, match="this index is not finished"):
        opencse.evaluate(tmp_path / "index", collection, "retrieval")


def test_titles_in_the_index_alone_make_no_other_documents(tmp_path: Path, collection: Path) -> None:
    folder = build(tmp_path / "index", {key: f"A title of {key}. {text}" for key, text in DOCUMENTS.items()})
    assert opencse.evaluate(folder, collection, "retrieval").retrieval["answers"].ndcg_at_10 > 0
