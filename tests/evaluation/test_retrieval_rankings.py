"""Documents that are the query, and documents of the same text."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

import opencse
from helpers import record_of
from opencse.adapting.user_queries import UserQueries
from opencse.errors import UserError
from opencse.evaluation.embedding import EmbeddingModel
from opencse.evaluation.retrieval.data import load_retrieval
from opencse.evaluation.retrieval.rankers import ByBoth, ByKeywords
from opencse.evaluation.retrieval.score import Retrieval
from vectors_of_texts import Numbers, numbers


def write(folder: Path, documents: dict[str, str], queries: dict[str, str], judged: str) -> Path:
    """A data set whose judgements are ``query document level`` in each line."""
    (folder / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", documents), ("queries", queries)):
        rows = [json.dumps({"_id": key, "text": text}) for key, text in texts.items()]
        (folder / f"{name}.jsonl").write_text("\n".join(rows), encoding="utf-8")
    (folder / "qrels" / "test.tsv").write_text(judged.replace(" ", "\t"), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("query", "own_level", "keep", "mrr"),
    [  # Of the documents 0 is nearest to the query 0, then 2, then 1, which is relevant.
        ("1 0", "", False, 50),
        ("1 0", "0 0 0", False, 50),
        ("1 0", "0 0 1", False, 100),
        ("1 0", "", True, 100 / 3),
        ("1 0.2", "", False, 100 / 3),  # another text under the same id
    ],
)
def test_a_document_that_is_the_query_is_left_out_unless_it_is_relevant(
    tmp_path: Path, query: str, own_level: str, keep: bool, mrr: float
) -> None:
    write(tmp_path / "toy", {"0": "1 0", "1": "0 1", "2": "1 1"}, {"0": query}, f"0 1 1\n{own_level}")
    told: list[str] = []
    evaluate = partial(record_of, Retrieval, numbers, load_retrieval(tmp_path))
    score = evaluate(progress=told.append, keep_identical_ids=keep).retrieval["toy"]
    assert score.mrr_at_10 == pytest.approx(mrr)
    assert score.identical_ids == (mrr == 50)
    assert ("that is its query, by id and text, left out (--keep" in told[-1]) is (mrr == 50)
    by = UserQueries.read(tmp_path / "toy", None, keep)
    assert by.values(Numbers()).mean() == pytest.approx(score.ndcg_at_10)  # type: ignore[arg-type]
    assert ("left out" in by.size) is (mrr == 50)
    if query == "1 0":
        assert by.fingerprint() != UserQueries(by.task, keep_identical_ids=not keep).fingerprint()


def test_the_text_of_a_document_with_a_title_may_be_the_query(tmp_path: Path) -> None:
    folder = write(tmp_path / "toy", {}, {"a": "the text"}, "a b 1")
    rows = [{"_id": key, "title": "A title", "text": " the text"} for key in ("a", "c")]
    rows += [{"_id": "b", "text": "other"}]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    task = load_retrieval(folder).tasks["toy"]
    assert (task.left_out(), task.left_out(keep_identical_ids=True)) == ([0], [None])


def test_equal_texts_share_one_rank_whatever_their_order(tmp_path: Path) -> None:
    texts = {"a": "3 0", "b": "2 1", "c": "4 5"}
    copies = {f"{key}{number}": text for key, text in texts.items() for number in range(12)}
    copies |= {"b1": "2  1", "c1": "\uff14 5\n"}  # spaces and Unicode forms make no other text
    judged = "0 b7 2\n0 b 1\n0 c3 1"
    orders = [texts | copies, copies | texts, dict(reversed({**texts, **copies}.items()))]
    write(tmp_path / "plain", texts, {"0": "2 0.1"}, "0 b 2\n0 c 1")
    for number, documents in enumerate(orders):
        write(tmp_path / f"copies{number}", documents, {"0": "2 0.1"}, judged)
    told: list[str] = []
    for suite in (Retrieval(), Retrieval(ranker=ByKeywords()), Retrieval(ranker=ByBoth(0.5))):
        model = EmbeddingModel("numbers", numbers)
        scores = suite.evaluate(model, load_retrieval(tmp_path), told.append).record.retrieval
        assert [score.measures() for score in scores.values()] == [scores["plain"].measures()] * 4
        assert {name: (score.documents, score.copies) for name, score in scores.items()} == {
            "plain": (3, 0), **{f"copies{number}": (39, 36) for number in range(3)}
        }  # fmt: skip
    assert "39 documents; 36 documents have the text of another one and its rank" in told[-3]


def test_the_option_without_retrieval_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--keep-identical-ids is for retrieval"):
        opencse.evaluate(numbers, tmp_path, "sts", keep_identical_ids=True)
    text = ["One sentence here.", "Another one there."]
    for dev in ("auto", "sample", None):
        with pytest.raises(UserError, match="--keep-identical-ids is for a folder of queries"):
            opencse.train(text, tmp_path / "out", dev=dev, keep_identical_ids=True, dry_run=True)
