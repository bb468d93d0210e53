"""Retrieval: data sets in BEIR's layout, judgements, and measures against loops over all documents."""

from __future__ import annotations

import gzip
import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from rich.console import Console
from rich.table import Table

from helpers import record_of, write_collection
from opencse.documents.dev_choice import UserQueries
from opencse.errors import UserError
from opencse.evaluation.embedding import EmbeddingModel
from opencse.evaluation.record import EvaluationRecord
from opencse.evaluation.retrieval.data import RetrievalData, RetrievalTask, load_retrieval, read_judgements
from opencse.evaluation.retrieval.rankers import ByBoth, ByKeywords
from opencse.evaluation.retrieval.score import Retrieval
from opencse.modules.similarity import Similarity
from vectors_of_texts import Numbers, numbers

CORPUS = (
    '{"_id": "d1", "title": "Cats", "text": "A cat sleeps. "}\n'
    '{"_id": "d2", "title": "", "text": " Rain falls."}\n'
    "\n"
    '{"_id": 3, "text": "No title."}\n'
)
QUERIES = '{"_id": "q1", "text": "cats? "}\n{"_id": "q2", "text": "rain?"}\n{"_id": "q3", "text": "train only"}\n'
QRELS = "query-id\tcorpus-id\tscore\nq2\td2\t2\nq1\td1\t1\nq1\td2\t0\n"


def write(folder: Path, corpus: str = CORPUS, queries: str = QUERIES, qrels: str = QRELS) -> Path:
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(corpus, encoding="utf-8")
    (folder / "queries.jsonl").write_text(queries, encoding="utf-8")
    (folder / "qrels" / "test.tsv").write_text(qrels, encoding="utf-8")
    return folder


def test_a_data_set_is_read_as_beir_does(tmp_path: Path) -> None:
    task = load_retrieval(write(tmp_path / "pets")).tasks["pets"]
    assert task.document_ids == ["d1", "d2", "3"]
    assert task.documents == ["Cats A cat sleeps.", "Rain falls.", "No title."]
    assert task.query_ids == ["q1", "q2"], "in the order of the queries' file; q3 is of another split"
    assert task.queries == ["cats?", "rain?"]
    assert (task.judged, task.without_relevant) == ([{0: 1, 1: 0}, {1: 2}], 0)
    same = load_retrieval(write(tmp_path / "y", corpus=CORPUS.replace("sleeps. ", "sleeps."))).tasks["y"]
    other = load_retrieval(write(tmp_path / "z", corpus=CORPUS.replace("sleeps", "slept"))).tasks["z"]
    assert task.sha256() == same.sha256() != other.sha256()
    few = load_retrieval(write(tmp_path / "x", qrels=QRELS.replace("q1\td1\t1", "q1\td1\t-1"))).tasks["x"]
    assert (few.query_ids, few.without_relevant) == (["q2"], 1)


def test_a_folder_of_data_sets_and_a_choice_of_them(tmp_path: Path) -> None:
    write(tmp_path / "b")
    write(tmp_path / "a", qrels=QRELS.replace("q1\td1\t1", "q1\td1\t3"))
    (tmp_path / "notes").mkdir()
    data = load_retrieval(tmp_path)
    assert list(data.tasks) == ["a", "b"]
    assert data.tasks["a"].sha256() != data.tasks["b"].sha256()
    assert list(load_retrieval(tmp_path, ["b"]).tasks) == ["b"]
    assert list(load_retrieval(tmp_path / "a", ["a"]).tasks) == ["a"]


def test_compressed_files_and_another_split(tmp_path: Path) -> None:
    folder = write(tmp_path / "x")
    (folder / "corpus.jsonl.gz").write_bytes(gzip.compress((folder / "corpus.jsonl").read_bytes()))
    (folder / "corpus.jsonl").unlink()
    (folder / "qrels" / "test.tsv").rename(folder / "qrels" / "dev.tsv")
    assert load_retrieval(folder, split="dev").tasks["x"].documents[1] == "Rain falls."
    with pytest.raises(UserError, match=r"test\.tsv: no such file; in that folder: dev\.tsv"):
        load_retrieval(folder)


def document(**values: object) -> str:
    return CORPUS + json.dumps(values) + "\n"


def test_what_is_wrong_is_told_in_one_line(tmp_path: Path) -> None:
    faults: list[tuple[dict[str, str], str]] = [
        ({"corpus": CORPUS + "{\n"}, "corpus.jsonl, line 5: not valid JSON"),
        ({"corpus": document(_id="x", title="t")}, "line 5: no 'text'; keys there: _id, title"),
        ({"corpus": document(_id="x", title=1, text="t")}, "line 5: 'title' is int, not text"),
        ({"corpus": document(_id="d2", text="t")}, "line 5: the _id 'd2' occurs twice"),
        ({"corpus": "\n\n"}, "corpus.jsonl: blank lines only"),
        ({"queries": QUERIES + '{"_id": "q4", "text": " "}'}, "queries.jsonl, line 4: the query is empty"),
        ({"qrels": QRELS + "q1\td1\n"}, "test.tsv, line 5: 2 filled field(s)"),
        ({"qrels": QRELS + "q1\td1\t2\n"}, "line 5: document 'd1' has relevance 1 for query 'q1' above, and 2"),
        ({"qrels": "query-id\tcorpus-id\tscore\nq1\td1\t0\n"}, "test.tsv: no query has a relevant document"),
    ]
    for number, (files, message) in enumerate(faults):
        with pytest.raises(UserError) as caught:
            load_retrieval(write(tmp_path / str(number), **files))
        assert str(caught.value).startswith(str(tmp_path / str(number)))
        assert message in str(caught.value)


def test_folders_that_hold_no_such_data_set(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no data set in BEIR's layout; corpus\.jsonl is neither in it nor in"):
        load_retrieval(tmp_path)
    write(tmp_path / "scifact")
    with pytest.raises(UserError, match=r"unknown retrieval data set 'scifcat' \(did you mean 'scifact'\?\)"):
        load_retrieval(tmp_path, ["scifcat"])
    (tmp_path / "scifact" / "queries.jsonl").unlink()
    with pytest.raises(UserError, match=r"queries\.jsonl: no such file; in that folder: corpus\.jsonl, qrels; BEIR's"):
        load_retrieval(tmp_path)
    (tmp_path / "scifact" / "labels.json").write_text("{}")
    with pytest.raises(UserError, match="; mark a text that answers a test query first: opencse label INDEX --out "):
        load_retrieval(tmp_path)


NAMES = ("queries.jsonl", "corpus.jsonl")


def judgements(folder: Path, text: str) -> tuple[dict[str, dict[str, int]], dict[str, list[int]], tuple[str, ...]]:
    path = folder / "test.tsv"
    path.write_text(text, encoding="utf-8")
    return read_judgements(path, {"q1", "7"}, {"d1", "d2", "7"}, NAMES)


def test_the_forms_of_a_line(tmp_path: Path) -> None:
    for text in (
        "query-id\tcorpus-id\tscore\nq1\td1\t1\n7\t7\t2\n",
        "q1\td1\t1\n7\t7\t2\n",
        "q1 0 d1 1\n7 0 7 2\n",  # TREC
        "Query Corpus Score\r\n q1 \td1\t1.0\r\n7\t 7\t2.0\r\n\r\n",
    ):
        assert judgements(tmp_path, text) == ({"q1": {"d1": 1}, "7": {"7": 2}}, {}, ()), text


def test_what_is_no_judgement_is_refused(tmp_path: Path) -> None:
    for text, message in (
        ("q1\td1\t0.5\n", "line 1: the score '0.5' is not an integer"),
        ("doc_id qid relevance\n7\t7\t1\n", r"line 1: the columns are .*; put them in the order query-id<TAB>"),
        ("q1\t007\t1\n", "the document '007' is not in corpus.jsonl; '7' is, and ids are compared as text"),
    ):
        with pytest.raises(UserError, match=rf"test\.tsv.*{message}"):
            judgements(tmp_path, text)


def test_unknown_ids_are_counted_and_named(tmp_path: Path) -> None:
    levels, missing, notes = judgements(tmp_path, "q1\td1\t1\nq1\td9\t2\nq1\tD2\t0\nq8\td1\t1\n0007\td1\t1\n7\td1\t1\n")
    assert levels == {"q1": {"d1": 1}, "7": {"d1": 1}}
    assert missing == {"q1": [2, 0]}
    queries, documents = notes
    assert queries == "test.tsv: 2 judgements name queries not in queries.jsonl (the first is 'q8'), and are not used"
    assert documents.startswith("test.tsv: 2 judgements name documents not in corpus.jsonl (the first is 'd9')")


def test_unknown_documents_and_negative_grades_score_as_in_trec_eval(tmp_path: Path) -> None:
    documents = {"a": "1 0", "b": "1 0.1", "c": "1 0.3", "d": "0 1"}
    queries = {"q1": "1 0", "q2": "0 1"}
    qrels = {"q1": {"b": 2, "c": -1, "gone": 1, "a": 0}, "q2": {"gone": 3}}
    judged = [(query, name, level) for query, levels in qrels.items() for name, level in levels.items()]
    data = load_retrieval(write_collection(tmp_path, documents, queries, judged))
    (task,) = data.tasks.values()
    assert task.missing == [[1], [3]]
    told: list[str] = []
    record = record_of(Retrieval, numbers, data, progress=told.append)
    (name,) = record.tasks
    assert "2 judgements name documents not in corpus.jsonl" in told[-1]
    run = {"q1": {"a": 1.0, "b": 0.9, "c": 0.8, "d": 0.0}, "q2": {"d": 1.0, "c": 0.3, "b": 0.1, "a": 0.0}}
    names = {"ndcg_cut_10": "ndcg_at_10", "map_cut_10": "map_at_10", "recall_1": "recall_at_1"}
    judge = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "map_cut.10", "recall.1"})
    values = judge.evaluate(run)
    for theirs, ours in names.items():
        assert record[name, ours].value == pytest.approx(100 * sum(one[theirs] for one in values.values()) / 2)
    assert 0 < record[name, "ndcg_at_10"].value < 100


evaluate_retrieval = partial(record_of, Retrieval)
"""The record of a plain function of texts."""


MEASURES = ("ndcg_at_10", "mrr_at_10", "map_at_10", "recall_at_1", "recall_at_10", "recall_at_100")


def measures(record: EvaluationRecord, task: str) -> dict[str, float]:
    return {one.measure: one.value for one in record.scores if one.task == task}


def task_of(documents: dict[str, str], queries: dict[str, str], judged: list[dict[int, int]]) -> RetrievalTask:
    return RetrievalTask(
        "toy", list(documents), list(documents.values()), list(queries), list(queries.values()), judged, 0
    )


def judge(*tasks: RetrievalTask, similarity: Similarity = Similarity.COSINE) -> EvaluationRecord:
    data = RetrievalData("here", "raw", {f"{task.name}{n or ''}": task for n, task in enumerate(tasks)})
    return evaluate_retrieval(numbers, data, similarity=similarity)


def random_task(seed: int) -> RetrievalTask:
    """130 documents and 9 queries; one document is a query, three are equal."""
    random = np.random.default_rng(seed)

    def vector() -> str:
        return " ".join(f"{value:.6f}" for value in random.normal(size=4))

    queries = {f"q{number}": vector() for number in range(9)}
    documents = {(f"q{number}" if number < 4 else f"d{number}"): vector() for number in range(130)}
    documents["d40"] = documents["d41"] = documents["d99"]
    documents["q1"] = queries["q1"]  # would come first, were it not left out
    judged = [
        {
            int(place): int(level)
            for place, level in zip(random.permutation(130)[:12], random.integers(0, 4, 12), strict=True)
        }
        | {99: 1}
        for _ in queries
    ]
    return replace(task_of(documents, queries, judged), own_documents={"q1": 1})


def naive(task: RetrievalTask, similarity: Similarity) -> dict[str, float]:
    sums = dict.fromkeys(MEASURES, 0.0)
    for key, query, levels in zip(task.query_ids, task.queries, task.judged, strict=True):
        q = [float(part) for part in query.split()]
        scored = []
        for place, text in enumerate(task.documents):
            d = [float(part) for part in text.split()]
            score = sum(a * b for a, b in zip(q, d, strict=True))
            if similarity == "cosine":
                score /= math.sqrt(sum(a * a for a in q)) * math.sqrt(sum(b * b for b in d))
            if place != task.own_documents.get(key) or levels.get(place, 0) > 0:
                scored.append((-score, place))
        ranked = [place for _, place in sorted(scored)]
        relevant = {place for place, level in levels.items() if level > 0}
        gain = sum(levels.get(place, 0) / math.log2(rank + 2) for rank, place in enumerate(ranked[:10]))
        best = sorted(levels.values(), reverse=True)[:10]
        sums["ndcg_at_10"] += gain / sum(level / math.log2(rank + 2) for rank, level in enumerate(best))
        ranks = [rank for rank, place in enumerate(ranked[:10], start=1) if place in relevant]
        sums["mrr_at_10"] += 1 / ranks[0] if ranks else 0
        sums["map_at_10"] += sum((hit + 1) / rank for hit, rank in enumerate(ranks)) / len(relevant)
        for k in (1, 10, 100):
            sums[f"recall_at_{k}"] += len(relevant & set(ranked[:k])) / len(relevant)
    return {name: 100 * value / len(task.queries) for name, value in sums.items()}


@pytest.mark.parametrize(("similarity", "seed"), [(Similarity.COSINE, 0), (Similarity.DOT, 1)])
def test_measures_equal_a_loop_over_all_documents(similarity: Similarity, seed: int) -> None:
    task = random_task(seed)
    record = judge(task, similarity=similarity)
    expected = naive(task, similarity)
    assert measures(record, "toy") == pytest.approx(expected, abs=1e-9)
    assert 0 < expected["ndcg_at_10"] < 100
    assert 0 < expected["recall_at_100"] < 100
    score = record["toy", "ndcg_at_10"]
    assert (score.n, score.extras["documents"], score.extras["without_relevant"]) == (9, 130, 0)


def test_a_hundred_others_are_ranked_beside_the_own_document() -> None:
    angles = np.linspace(0, 1, 101)
    documents = {f"d{number}": f"{np.cos(a):.9f} {np.sin(a):.9f}" for number, a in enumerate(angles)}
    task = task_of(documents, {"q": "1 0"}, [{100: 1}])
    assert judge(task)["toy", "recall_at_100"].value == 0
    assert judge(replace(task, own_documents={"q": 0}))["toy", "recall_at_100"].value == 100


def rendered(table: Table) -> list[str]:
    console = Console(width=170, force_terminal=False)
    with console.capture() as capture:
        console.print(table)
    return capture.get().splitlines()


def test_hits_that_nobody_judged_are_reported_where_the_models_differ_in_them() -> None:
    """Labels of one model's hits are unfair to another: its right texts count as not relevant."""
    documents = {f"d{number}": f"{number} 1" for number in range(40)}
    task = task_of(documents, {"q": "1 0"}, [{**dict.fromkeys(range(30, 40), 0), 39: 1}])
    data = RetrievalData("here", "raw", {"toy": task})
    one = evaluate_retrieval(numbers, data)
    other = evaluate_retrieval(lambda texts: numbers(texts) * [1, -1] + [0, 2], data)
    assert [record["toy", "ndcg_at_10"].extras["judged_at_10"] for record in (one, other)] == [1, 0]
    lines = rendered(Retrieval.table({"one": one, "other": other}))
    shown = " ".join(" ".join(lines).split())
    assert "toy: judged of the first 10 hits: one 100%, other 0%" in shown
    assert "Retrieval (test; ranked by cosine), x 100" in lines[0]
    values = measures(one, "toy").values()
    assert all(f" {value:.2f}" in next(line for line in lines if "│ one" in line) for value in values)
    assert "judged of" not in " ".join(rendered(Retrieval.table({"one": one, "again": one})))


@pytest.mark.parametrize(
    ("query", "own_level", "keep", "mrr"),
    [  # Of the documents 0 is nearest to the query 0, then 2, then 1, which is relevant.
        ("1 0", 0, False, 50),
        ("1 0", 1, False, 100),
        ("1 0", None, True, 100 / 3),
        ("1 0.2", None, False, 100 / 3),  # another text under the same id
    ],
)
def test_a_document_that_is_the_query_is_left_out_unless_it_is_relevant(
    tmp_path: Path, query: str, own_level: int | None, keep: bool, mrr: float
) -> None:
    judged = [(0, 1, 1), *([(0, 0, own_level)] if own_level is not None else [])]
    write_collection(tmp_path / "toy", {0: "1 0", 1: "0 1", 2: "1 1"}, {0: query}, judged)
    told: list[str] = []
    evaluate = partial(record_of, Retrieval, numbers, load_retrieval(tmp_path))
    score = evaluate(progress=told.append, keep_identical_ids=keep)["toy", "ndcg_at_10"]
    assert evaluate(keep_identical_ids=keep)["toy", "mrr_at_10"].value == pytest.approx(mrr)
    assert score.extras["identical_ids"] == (mrr == 50)
    assert ("that is its query, by id and text, left out (--keep" in told[-1]) is (mrr == 50)
    by = UserQueries.read(tmp_path / "toy", None, keep)
    assert by.values(Numbers()).mean() == pytest.approx(score.value)  # type: ignore[arg-type]
    assert ("left out" in by.size) is (mrr == 50)
    if query == "1 0":
        assert by.fingerprint() != UserQueries(by.task, keep_identical_ids=not keep).fingerprint()


def test_equal_texts_share_one_rank_whatever_their_order(tmp_path: Path) -> None:
    texts = {"a": "3 0", "b": "2 1", "c": "4 5"}
    copies = {f"{key}{number}": text for key, text in texts.items() for number in range(12)}
    copies |= {"b1": "2  1", "c1": "\uff14 5\n"}  # spaces and Unicode forms make no other text
    write_collection(tmp_path / "plain", texts, {0: "2 0.1"}, [(0, "b", 2), (0, "c", 1)])
    for number, documents in enumerate([texts | copies, copies | texts]):
        judged = [(0, "b7", 2), (0, "b", 1), (0, "c3", 1)]
        write_collection(tmp_path / f"copies{number}", documents, {0: "2 0.1"}, judged)
    for suite in (Retrieval(), Retrieval(ranker=ByKeywords()), Retrieval(ranker=ByBoth(0.5))):
        record = suite.evaluate(EmbeddingModel("numbers", numbers), load_retrieval(tmp_path))
        assert [measures(record, task) for task in record.tasks] == [measures(record, "plain")] * 3
        assert record["copies1", "ndcg_at_10"].extras["copies"] == 36
