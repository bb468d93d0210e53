"""`opencse.evaluate` and `opencse.evaluate_all`: what they return and refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

import opencse
from opencse.errors import UserError


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
    with pytest.raises(UserError, match=r"--fit words\.txt needs --transform"):
        opencse.evaluate("opencse-mini", animals, "retrieval", fit="words.txt")
    with pytest.raises(UserError, match="--keep-identical-ids is for retrieval"):
        opencse.evaluate("opencse-mini", animals, "sts", keep_identical_ids=True)
    with pytest.raises(TypeError, match="data is a path"):
        opencse.evaluate("opencse-mini", ["pairs"], "retrieval")  # type: ignore[call-overload]
