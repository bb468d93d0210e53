"""Queries that are named while a run goes on are those that selected."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import write_collection
from opencse.documents.dev_choice import QUESTIONS_FILE as FILE
from opencse.documents.dev_choice import SavedQuestions, UserQueries
from opencse.errors import UserError
from opencse.ranking import Measure
from opencse.training.selection import TrainedTexts


def test_queries_of_a_folder_are_read_again(tmp_path: Path) -> None:
    texts, asked = ({n: f"{word} {n}" for n in range(5)} for word in ("text", "query"))
    folder = write_collection(tmp_path / "queries", texts, asked, [(n, n, 1) for n in range(5)], "dev")
    queries = UserQueries.read(folder, Measure.parse("recall@3"), keep_identical_ids=True)
    queries, _ = queries.without(TrainedTexts.among([("Query 3",)], queries.forbidden_texts()))
    saved = SavedQuestions.of(queries, folder)
    saved.write(tmp_path)
    assert SavedQuestions.read(tmp_path) == saved
    assert "query 1" not in (tmp_path / FILE).read_text(), "the texts are in the folder"
    read = saved.opened()
    assert read.fingerprint() == queries.fingerprint()
    (folder / "queries.jsonl").write_text((folder / "queries.jsonl").read_text().replace("query 1", "another"))
    with pytest.raises(UserError, match="the queries have changed since"):
        saved.opened()
