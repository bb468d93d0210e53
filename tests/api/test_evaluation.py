"""`opencse.evaluate` and `opencse.evaluate_all`: what they return and refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

import opencse
from helpers import write_collection
from opencse.errors import UserError
from opencse.evaluation.retrieval.score import Retrieval

DOCUMENTS = {1: "A dog barks.", 2: "Rain falls."}


@pytest.fixture
def animals(tmp_path: Path) -> Path:
    return write_collection(tmp_path / "animals", DOCUMENTS, {"q": "barking dogs"}, [("q", 1, 1)])


def test_models_of_one_name_are_told_apart(animals: Path) -> None:
    encoder = opencse.SentenceEncoder(device="cpu")
    ((suite, records),) = opencse.evaluate_all([encoder, encoder], animals, ["retrieval"], dimensions=[8, 64])
    assert suite == "retrieval"
    assert len(records) == 4
    assert len(set(records)) == 4


def test_options_without_their_partner_are_refused(animals: Path) -> None:
    with pytest.raises(UserError, match=r"--fit needs --transform"):
        opencse.evaluate("opencse-mini", animals, "retrieval", fit="words.txt")
    with pytest.raises(UserError, match="--keep-identical-ids is for retrieval"):
        opencse.evaluate("opencse-mini", animals, "sts", keep_identical_ids=True)
    with pytest.raises(TypeError):
        opencse.evaluate("opencse-mini", ["pairs"], "retrieval")  # type: ignore[arg-type]


def test_several_models_are_compared_with_the_first_query_by_query(animals: Path) -> None:
    queries = {"q": "barking dogs", "r": "a shower from the clouds"}
    write_collection(animals, DOCUMENTS, queries, [("q", 1, 1), ("r", 2, 1)])
    ((_, records),) = opencse.evaluate_all(["opencse-mini", "bag-of-words"], animals, ["retrieval"])
    first, second = records.values()
    assert first.compared == []
    difference = second["animals", "ndcg_at_10"].value - first["animals", "ndcg_at_10"].value
    (compared,) = second.compared
    assert (compared.task, compared.than) == ("animals", "opencse-mini")
    assert compared.difference == pytest.approx(difference)
    notes = str(Retrieval.table({"opencse-mini": first, "bag-of-words": second}).caption).splitlines()
    assert [line.partition(":")[0] for line in notes] == ["animals", "animals, bag-of-words against opencse-mini"]
    ((_, hybrid),) = opencse.evaluate_all(["opencse-mini", "bag-of-words"], animals, ["retrieval"], hybrid=True)
    thans = {label: [one.than for one in row.compared] for label, row in hybrid.items()}
    assert thans["BM25"] == []
    assert thans["opencse-mini"] == ["BM25"]
    assert thans["bag-of-words"] == ["BM25", "opencse-mini"]
    assert thans["bag-of-words + BM25"][1:] == ["opencse-mini + BM25"]
    assert "bag-of-words + BM25 against opencse-mini + BM25: " in str(Retrieval.table(hybrid).caption)
    ((_, parts),) = opencse.evaluate_all(["opencse-mini"], animals, ["retrieval"], dimensions=[8, 64])
    assert not any(record.compared for record in parts.values())
