"""`opencse.evaluate` and `opencse.evaluate_all`: what they return and refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

import opencse
from opencse.errors import UserError
from opencse.evaluation.retrieval.score import Retrieval


@pytest.fixture
def animals(tmp_path: Path) -> Path:
    folder = tmp_path / "animals"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text('{"_id": "1", "text": "A dog barks."}\n{"_id": "2", "text": "Rain falls."}\n')
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "barking dogs"}\n')
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\t1\t1\n")
    return folder


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
    (animals / "queries.jsonl").write_text(
        '{"_id": "q", "text": "barking dogs"}\n{"_id": "r", "text": "a shower from the clouds"}\n'
    )
    (animals / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\t1\t1\nr\t2\t1\n")
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
