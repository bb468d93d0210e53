"""Data sets in BEIR's layout, and what is told of those that are not."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.evaluation.retrieval.data import load_retrieval

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
    data = load_retrieval(write(tmp_path / "pets"))
    assert (data.source, list(data.tasks)) == (str(tmp_path / "pets"), ["pets"])
    task = data.tasks["pets"]
    assert task.name == "pets"
    assert task.document_ids == ["d1", "d2", "3"]
    assert task.documents == ["Cats A cat sleeps.", "Rain falls.", "No title."]
    assert task.query_ids == ["q1", "q2"], "in the order of the queries' file; q3 is of another split"
    assert task.queries == ["cats?", "rain?"]
    assert task.judged == [{0: 1, 1: 0}, {1: 2}]
    assert task.without_relevant == 0


def test_a_folder_of_data_sets_and_a_choice_of_them(tmp_path: Path) -> None:
    write(tmp_path / "b")
    write(tmp_path / "a", qrels=QRELS.replace("q1\td1\t1", "q1\td1\t3"))
    (tmp_path / "notes").mkdir()
    data = load_retrieval(tmp_path)
    assert list(data.tasks) == ["a", "b"]
    assert data.tasks["a"].sha256() != data.tasks["b"].sha256()
    assert list(load_retrieval(tmp_path, ["b"]).tasks) == ["b"]
    assert list(load_retrieval(tmp_path / "a", ["a"]).tasks) == ["a"]


def test_the_hash_is_of_what_was_read(tmp_path: Path) -> None:
    one = load_retrieval(write(tmp_path / "x")).tasks["x"]
    same = load_retrieval(write(tmp_path / "y", corpus=CORPUS.replace("sleeps. ", "sleeps."))).tasks["y"]
    other = load_retrieval(write(tmp_path / "z", corpus=CORPUS.replace("sleeps", "slept"))).tasks["z"]
    assert one.sha256() == same.sha256() != other.sha256()


def test_queries_without_a_relevant_document_are_counted(tmp_path: Path) -> None:
    task = load_retrieval(write(tmp_path / "x", qrels=QRELS.replace("q1\td1\t1", "q1\td1\t-1"))).tasks["x"]
    assert (task.query_ids, task.without_relevant) == (["q2"], 1)


def test_compressed_files_and_another_split(tmp_path: Path) -> None:
    folder = write(tmp_path / "x")
    (folder / "corpus.jsonl.gz").write_bytes(gzip.compress((folder / "corpus.jsonl").read_bytes()))
    (folder / "corpus.jsonl").unlink()
    (folder / "qrels" / "test.tsv").rename(folder / "qrels" / "dev.tsv")
    assert load_retrieval(folder, split="dev").tasks["x"].documents[1] == "Rain falls."
    with pytest.raises(UserError, match=r"test\.tsv: no such file; in that folder: dev\.tsv"):
        load_retrieval(folder)


def test_the_same_judgement_twice_is_one(tmp_path: Path) -> None:
    assert load_retrieval(write(tmp_path / "x", qrels=QRELS + "q1\td1\t1\n")).tasks["x"].judged[0] == {0: 1, 1: 0}


def test_windows_line_ends_and_white_space_around_ids(tmp_path: Path) -> None:
    task = load_retrieval(write(tmp_path / "x", qrels=QRELS.replace("\n", "\r\n").replace("q2\t", "q2 \t"))).tasks["x"]
    assert task.judged == [{0: 1, 1: 0}, {1: 2}]


def document(**values: object) -> str:
    return CORPUS + json.dumps(values) + "\n"


@pytest.mark.parametrize(
    ("files", "parts"),
    [
        ({"corpus": CORPUS + "{\n"}, ("corpus.jsonl, line 5: not valid JSON",)),
        ({"corpus": CORPUS + "[1]\n"}, ("corpus.jsonl, line 5: a JSON object per line is expected, not list",)),
        ({"corpus": document(id="x", text="t")}, ("line 5: no '_id'; keys there: id, text",)),
        ({"corpus": document(_id="x", title="t")}, ("line 5: no 'text'; keys there: _id, title",)),
        ({"corpus": document(_id="x", title=1, text="t")}, ("line 5: 'title' is int, not text",)),
        ({"corpus": document(_id=True, text="t")}, ("line 5: '_id' is bool, not text",)),
        ({"corpus": document(_id=" ", text="t")}, ("line 5: the _id is empty",)),
        ({"corpus": document(_id="d2", text="t")}, ("line 5: the _id 'd2' occurs twice",)),
        ({"corpus": document(_id="x", text="\ud800")}, ("line 5: 'text' holds half of a surrogate pair",)),
        ({"corpus": "\n\n"}, ("corpus.jsonl: blank lines only",)),
        ({"queries": QUERIES + '{"_id": "q4", "text": " "}'}, ("queries.jsonl, line 4: the query is empty",)),
        ({"qrels": QRELS + "q1\td1\n"}, ("test.tsv, line 5: 2 filled field(s)", "3 expected", "query-id<TAB>")),
        ({"qrels": QRELS + "q1\t\t1\n"}, ("test.tsv, line 5: 2 filled field(s)",)),
        ({"qrels": QRELS + "q1\t3\t0.5\n"}, ("test.tsv, line 5: the score '0.5' is not an integer",)),
        ({"qrels": QRELS + "q1\td1\t2\n"}, ("line 5: document 'd1' has relevance 1 for query 'q1' above, and 2",)),
        ({"qrels": "query-id\tcorpus-id\tscore\nq1\td1\t0\n"}, ("test.tsv: no query has a relevant document",)),
        ({"qrels": "query-id\tcorpus-id\tscore\n"}, ("test.tsv: no query has a relevant document",)),
        ({"qrels": ""}, ("test.tsv: the file is empty",)),
    ],
)
def test_what_is_wrong_is_told_in_one_line(tmp_path: Path, files: dict[str, str], parts: Sequence[str]) -> None:
    with pytest.raises(UserError) as caught:
        load_retrieval(write(tmp_path / "x", **files))
    message = str(caught.value)
    assert message.startswith(str(tmp_path / "x"))
    assert "\n" not in message
    for part in parts:
        assert part in message


def test_folders_that_hold_no_such_data_set(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        load_retrieval(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"no data set in BEIR's layout; corpus\.jsonl is neither in it nor in"):
        load_retrieval(tmp_path)
    write(tmp_path / "scifact")
    with pytest.raises(
        UserError, match=r"unknown retrieval data set 'scifcat' \(did you mean 'scifact'\?\); in .*scif"
    ):
        load_retrieval(tmp_path, ["scifcat"])
    with pytest.raises(UserError, match=r"no retrieval data set chosen; in .*: scifact"):
        load_retrieval(tmp_path, [])
    (tmp_path / "scifact" / "queries.jsonl").unlink()
    with pytest.raises(UserError, match=r"queries\.jsonl: no such file; in that folder: corpus\.jsonl, qrels; BEIR's"):
        load_retrieval(tmp_path)


@pytest.mark.parametrize("split", ["test", "dev"])
@pytest.mark.parametrize("missing", ["queries", "judgements", "relevant"])
def test_a_folder_of_labels_without_marks_says_where_to_make_them(tmp_path: Path, missing: str, split: str) -> None:
    folder = tmp_path / "my queries"
    write(folder)
    judgements = folder / "qrels" / f"{split}.tsv"
    if missing == "queries":
        (folder / "queries.jsonl").unlink()
    elif missing == "judgements":
        judgements.unlink(missing_ok=True)
    else:
        judgements.write_text("query-id\tcorpus-id\tscore\nq1\td1\t0\n")
    with pytest.raises(UserError, match=rf"BEIR's layout has .*qrels/{split}\.tsv, with a score above 0"):
        load_retrieval(folder, split=split)
    (folder / "labels.json").write_text("{}")
    with pytest.raises(
        UserError, match=rf"; mark a text that answers a {split} query first: opencse label INDEX --out '"
    ):
        load_retrieval(folder, split=split)
