"""Judgements as people write them: with and without a header, in TREC's form, of ids that are not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import pytrec_eval

from helpers import record_of
from opencse.errors import UserError
from opencse.evaluation.retrieval.data import load_retrieval
from opencse.evaluation.retrieval.judgements import Judgements, read_judgements
from opencse.evaluation.retrieval.score import Retrieval
from vectors_of_texts import numbers

NAMES = ("queries.jsonl", "corpus.jsonl")


def judgements(folder: Path, text: str) -> Judgements:
    path = folder / "test.tsv"
    path.write_text(text, encoding="utf-8")
    return read_judgements(path, {"q1", "7"}, {"d1", "d2", "7"}, NAMES)


@pytest.mark.parametrize(
    "text",
    [
        "query-id\tcorpus-id\tscore\nq1\td1\t1\n7\t7\t2\n",
        "q1\td1\t1\n7\t7\t2\n",
        "q1 0 d1 1\n7 0 7 2\n",
        "q1\t0\td1\t1\n7\t0\t7\t2\n",
        "query-id\tcorpus-id\tscore\r\n q1 \td1\t1.0\r\n7\t 7\t2.0\r\n\r\n",
        "q1 d1 1\n7 7 2\n",
    ],
    ids=["header", "no header", "TREC", "TREC with tabs", "floats and white space", "spaces"],
)
def test_the_forms_of_a_line(tmp_path: Path, text: str) -> None:
    found = judgements(tmp_path, text)
    assert found.levels == {"q1": {"d1": 1}, "7": {"7": 2}}
    assert (found.missing, found.notes) == ({}, ())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q1\td1\t0.5", "line 1: the score '0.5' is not an integer"),
        ("q1\td1\tnan", "line 2: the score 'nan' is not an integer"),
        ("q1\td1\t1e999", "line 2: the score '1e999' is not an integer"),
        ("q1\td1", "line 1: 2 filled field"),
        ("q1\td1\t1\tyes", "line 1: 4 filled field"),
    ],
)
def test_what_is_no_judgement_is_refused(tmp_path: Path, line: str, message: str) -> None:
    before = "q1\td2\t1\n" if "line 2" in message else ""
    with pytest.raises(UserError, match=r"test\.tsv, ") as caught:
        judgements(tmp_path, f"{before}{line}\n")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "header", ["corpus-id\tquery-id\tscore", "score\tquery-id\tcorpus-id", "doc_id qid relevance", "qid label pid"]
)
def test_columns_in_another_order_are_refused(tmp_path: Path, header: str) -> None:
    with pytest.raises(UserError, match=r"line 1: the columns are \w+.*; put them in the order query-id<TAB>corpus-id"):
        judgements(tmp_path, f"{header}\n7\t7\t1\n")


@pytest.mark.parametrize("header", ["query_id\tdoc_id\trelevance", "qid pid label", "a\tb\tc", "Query Corpus Score"])
def test_columns_have_any_names(tmp_path: Path, header: str) -> None:
    assert judgements(tmp_path, f"{header}\n7\t7\t1\n").levels == {"7": {"7": 1}}


def test_unknown_ids_are_counted_and_named(tmp_path: Path) -> None:
    found = judgements(tmp_path, "q1\td1\t1\nq1\td9\t2\nq1\tD2\t0\nq8\td1\t1\n0007\td1\t1\n7\td1\t1\n")
    assert found.levels == {"q1": {"d1": 1}, "7": {"d1": 1}}
    assert found.missing == {"q1": [2, 0]}
    queries, documents = found.notes
    assert queries == "test.tsv: 2 judgements name queries not in queries.jsonl (the first is 'q8'), and are not used"
    assert documents.startswith("test.tsv: 2 judgements name documents not in corpus.jsonl (the first is 'd9')")


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("q1\t007\t1", "the document '007' is not in corpus.jsonl; '7' is, and ids are compared as text"),
        ("q1\tD1\t1", "the document 'D1' is not in corpus.jsonl; 'd1' is"),
        ("7.0\td1\t1", "the query '7.0' is not in queries.jsonl; '7' is"),
        ("x\td1\t1", "the query 'x' is not in queries.jsonl, and no other line"),
    ],
)
def test_judgements_of_nothing_that_is_there_are_refused(tmp_path: Path, line: str, hint: str) -> None:
    with pytest.raises(UserError, match="no other line names a query and a document that are there") as caught:
        judgements(tmp_path, f"{line}\n")
    assert hint in str(caught.value)


def test_unknown_documents_and_negative_grades_score_as_in_trec_eval(tmp_path: Path) -> None:
    documents = {"a": "1 0", "b": "1 0.1", "c": "1 0.3", "d": "0 1"}
    queries = {"q1": "1 0", "q2": "0 1"}
    qrels = {"q1": {"b": 2, "c": -1, "gone": 1, "a": 0}, "q2": {"gone": 3}}
    (tmp_path / "qrels").mkdir()
    for name, texts in (("corpus", documents), ("queries", queries)):
        lines = [json.dumps({"_id": key, "text": text}) for key, text in texts.items()]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    lines = [f"{query}\t{name}\t{level}" for query, levels in qrels.items() for name, level in levels.items()]
    (tmp_path / "qrels" / "test.tsv").write_text("\n".join(lines), encoding="utf-8")
    data = load_retrieval(tmp_path)
    (task,) = data.tasks.values()
    assert task.missing == [[1], [3]]
    told: list[str] = []
    (score,) = record_of(Retrieval, numbers, data, progress=told.append).retrieval.values()
    assert "2 judgements name documents not in corpus.jsonl" in told[-1]
    run = {"q1": {"a": 1.0, "b": 0.9, "c": 0.8, "d": 0.0}, "q2": {"d": 1.0, "c": 0.3, "b": 0.1, "a": 0.0}}
    names = {"ndcg_cut_10": "ndcg_at_10", "map_cut_10": "map_at_10", "recall_1": "recall_at_1"}
    judge = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "map_cut.10", "recall.1"})
    values = judge.evaluate(run)
    for theirs, ours in names.items():
        assert getattr(score, ours) == pytest.approx(100 * sum(one[theirs] for one in values.values()) / 2)
    assert 0 < score.ndcg_at_10 < 100
