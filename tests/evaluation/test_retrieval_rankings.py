"""Documents with a query's own id: left out where they are the query, ranked where they answer it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

import opencse
from helpers import record_of
from opencse.adapting.user_queries import UserQueries
from opencse.errors import UserError
from opencse.evaluation.retrieval.data import RetrievalData, RetrievalTask
from opencse.evaluation.retrieval.rankings import OwnDocuments
from opencse.evaluation.retrieval.score import Retrieval, RetrievalScore
from vectors_of_texts import Numbers, numbers

CASE = Path(__file__).resolve().parents[3] / "shared" / "cases" / "same-ids"
DOCUMENTS = {"0": "1 0", "1": "0 1", "2": "1 1"}


def task_of(queries: dict[str, str], judged: list[dict[int, int]]) -> RetrievalTask:
    return RetrievalTask(
        "toy", list(DOCUMENTS), list(DOCUMENTS.values()), list(queries), list(queries.values()), judged, 0
    )


def score_of(task: RetrievalTask, told: list[str] | None = None, keep_identical_ids: bool = False) -> RetrievalScore:
    evaluate = partial(record_of, Retrieval, numbers, RetrievalData("here", "raw", {"toy": task}))
    score: RetrievalScore = evaluate(
        progress=(told if told is not None else []).append, keep_identical_ids=keep_identical_ids
    ).retrieval["toy"]
    return score


@pytest.mark.parametrize(
    ("level", "keep", "first", "left_out"),
    [
        (1, False, 100, 0),
        (3, True, 100, 0),
        (0, False, 0, 1),
        (-1, False, 0, 1),
        (None, False, 0, 1),
        (None, True, 0, 0),
    ],
)
def test_the_own_document_is_left_out_unless_it_is_relevant(
    level: int | None, keep: bool, first: int, left_out: int
) -> None:
    levels = {1: 1} if level is None else {1: 1, 0: level}
    task = task_of({"0": "1 0.2"}, [levels])
    told: list[str] = []
    score = score_of(task, told, keep_identical_ids=keep)
    relevant = (level or 0) > 0
    assert score.recall_at_1 == (50 if relevant else first)
    assert score.identical_ids == left_out
    assert ("with their query's own id left out (--keep-identical-ids keeps them)" in told[-1]) is bool(left_out)
    assert ("own id ranked" in told[-1]) is relevant
    # The second document (2) is nearer than 1 in any case: without 0 it is first, with 0 second.
    assert score.mrr_at_10 == pytest.approx(100 if relevant else 100 / 3 if keep else 50)


def test_queries_and_documents_both_numbered_from_0_find_their_answers() -> None:
    queries = {str(number): text for number, text in enumerate(DOCUMENTS.values())}
    task = task_of(queries, [{number: 1} for number in range(3)])
    assert score_of(task).recall_at_1 == 100
    own = OwnDocuments.of(task)
    assert (own.count, own.relevant, own.left_out) == (0, 3, [None, None, None])
    by = UserQueries(task)
    assert by.values(Numbers()).tolist() == [100, 100, 100]  # type: ignore[arg-type]
    assert by.size == (
        "3 queries among 3 documents; 3 documents with their query's own id ranked, since they are judged relevant"
    )
    assert by.fingerprint() != UserQueries(task, keep_identical_ids=True).fingerprint()


def test_selection_leaves_out_the_same_documents_as_the_evaluation() -> None:
    task = task_of({"0": "1 0.2", "1": "0.2 1"}, [{1: 1}, {0: 1}])
    for keep in (False, True):
        values = UserQueries(task, keep_identical_ids=keep).values(Numbers())  # type: ignore[arg-type]
        assert values.mean() == pytest.approx(score_of(task, keep_identical_ids=keep).ndcg_at_10)
    assert "2 documents with their query's own id left out" in UserQueries(task).size


@pytest.mark.skipif(not CASE.is_dir(), reason="needs ../shared")
def test_a_folder_whose_ids_are_numbers_on_both_sides() -> None:
    assert opencse.evaluate(by_first_letters, CASE, "retrieval").retrieval["same-ids"].recall_at_1 == 100


def by_first_letters(texts: Sequence[str]) -> list[list[float]]:
    """Texts that begin the same have the same vector."""
    beginnings = sorted({text[:25] for text in texts})
    return [[float(text[:25] == one) for one in beginnings] for text in texts]


def test_the_option_without_retrieval_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--keep-identical-ids is for retrieval"):
        opencse.evaluate(by_first_letters, tmp_path, "sts", keep_identical_ids=True)
    text = ["One sentence here.", "Another one there."]
    for dev in ("auto", "sample", None):
        with pytest.raises(UserError, match="--keep-identical-ids is for a folder of queries"):
            opencse.train(text, tmp_path / "out", dev=dev, keep_identical_ids=True, dry_run=True)


def test_a_folder_of_queries_chooses_with_the_option(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / "qrels").mkdir(parents=True)
    rows = [json.dumps({"_id": number, "text": f"Text number {number}."}) for number in range(3)]
    (folder / "corpus.jsonl").write_text("\n".join(rows), encoding="utf-8")
    (folder / "queries.jsonl").write_text("\n".join(rows), encoding="utf-8")
    (folder / "qrels" / "dev.tsv").write_text("0\t1\t1\n1\t1\t1\n", encoding="utf-8")
    for keep, size in ((False, "1 document with their query's own id left out"), (True, "1 document with their")):
        by = UserQueries.read(folder, None, keep)
        assert size in by.size
        assert by.keep_identical_ids is keep
    assert "left out" not in by.size
